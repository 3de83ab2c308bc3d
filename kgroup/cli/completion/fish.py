"""The script for fish, 3.1 and later."""

from __future__ import annotations

from collections.abc import Iterator

from kgroup.cli.completion.tree import Option, Value, VerbTree

_HEAD = """\
# Completion for fish. Made by: kgroup completion fish
# Put it into ~/.config/fish/completions as kgroup.fish, or load it with: kgroup completion fish | source

# The names of a kind. They are text to show and never run or expanded.
function __kgroup_names
    set -l program (commandline -opc | string replace -r '^~/' $HOME/)[1]
    command -q -- $program; or set program kgroup
    set -lx KGROUP_LINE (commandline -cp | string collect)
    $program __complete $argv 2>/dev/null </dev/null
end
"""
_AT = """
# Whether VERB is the verb that is typed, and, if PLACE is given, whether its argument at this place comes next.
function __kgroup_at --argument-names wanted place
    set -l words (commandline -opc)
    set -l verb
    set -l count 1
    set -l skip no
    set -l only_arguments no
    for word in $words[2..]
        if test $skip = yes
            set skip no
        else if test $only_arguments = yes
            set count (math $count + 1)
        else if test "$word" = --
            set only_arguments yes
        else if contains -- "$word" $__kgroup_with_value
            set skip yes
        else if string match -q -- '-*' $word
            continue
        else if contains -- (string trim -- "$verb $word") $__kgroup_verbs
            set verb (string trim -- "$verb $word")
        else
            set count (math $count + 1)
        end
    end
    test "$verb" = "$wanted"; and begin
        test -z "$place"; or test $count = "$place"
    end
end

complete -c kgroup -f
"""


def script(tree: VerbTree) -> str:
    """The whole script."""
    verbs = list(tree.walk())
    with_value = dict.fromkeys(
        name for verb in verbs for option in verb.options if option.value is not None for name in option.names
    )
    lists = [
        f"set -g __kgroup_verbs {' '.join(_quoted(verb.name) for verb in verbs if verb.name)}",
        f"set -g __kgroup_with_value {' '.join(with_value)}",
    ]
    lines = "".join(f"{line}\n" for verb in verbs for line in _verb(verb))
    return _HEAD + "\n" + "\n".join(lists) + "\n" + _AT + lines


def _verb(verb: VerbTree) -> Iterator[str]:
    yield ""
    begin = f"complete -c kgroup -n {_quoted('__kgroup_at ' + _quoted(verb.name))}"
    for sub in verb.verbs:
        first = f"complete -c kgroup -n {_quoted(f'__kgroup_at {_quoted(verb.name)} 1')}"
        yield f"{first} -a {sub.last_name} -d {_quoted(sub.help)}"
    for place, argument in enumerate(verb.arguments, start=1):
        here = f"__kgroup_at {_quoted(verb.name)}" + ("" if argument.many else f" {place}")
        if argument.value.kind != "text":
            yield f"complete -c kgroup -n {_quoted(here)} {_taken(argument.value)}"
    for option in verb.options:
        yield " ".join([begin, *_option(option)])


def _option(option: Option) -> Iterator[str]:
    for name in option.names:
        yield f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
    if option.value is not None:
        exclusive = option.value.kind not in ("files", "directories")
        yield "-x" if exclusive else "-r"
        if option.value.kind != "text":
            yield _taken(option.value)
    yield f"-d {_quoted(option.help)}"


def _taken(value: Value) -> str:
    match value.kind:
        case "words":
            return f"-a {_quoted(' '.join(value.words))}"
        case "files":
            return "-F"
        case "directories":
            return "-a '(__fish_complete_directories)'"
        case names:
            return f"-a '(__kgroup_names {names})'"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
