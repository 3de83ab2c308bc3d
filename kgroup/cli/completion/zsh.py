"""The script for zsh. It uses zsh's ``_arguments``, which quotes names and follows the user's completion settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kgroup.cli.completion.tree import Option, Value, VerbTree

_HEAD = """\
#compdef kgroup
# Completion for zsh. Made by: kgroup completion zsh
# Put it into a directory of $fpath as _kgroup, or load it with: eval "$(kgroup completion zsh)"

# The names of a kind. They are text to show and never run or expanded.
_kgroup_names() {
    local -a names
    names=(${(f)"$(KGROUP_LINE=$kgroup_line $kgroup_command __complete $1 2>/dev/null </dev/null)"})
    local expl
    _wanted $1 expl ${1%s} compadd -a names
}

# Words, of which those that end in = are gone on with.
_kgroup_words() {
    local expl
    local -a whole=(${@:#*=}) begun=(${(M)@:#*=})
    _description values expl value
    compadd "$expl[@]" -a whole
    compadd "$expl[@]" -S '' -a begun
}

# What follows a verb that has verbs: one of them, or what belongs to it.
_kgroup_below() {
    case $state in
        verb) _describe -t verbs verb verbs ;;
        rest)
            local name=$1_$words[1]
            (( $+functions[$name] )) || return 1
            curcontext="${curcontext%:*:*}:${name#_}:"
            $name ;;
    esac
}
"""
_TAIL = """
_kgroup() {
    # As it is typed, in its quotes; what stands in it is for kgroup to read, not for the shell.
    local kgroup_line="${(j: :)words[1,CURRENT-1]} $PREFIX" kgroup_command=${(Q)words[1]}
    kgroup_command=${kgroup_command/#\\~\\//$HOME/}
    whence -p -- $kgroup_command >/dev/null || kgroup_command=kgroup
    _kgroup_verb
}

if [[ $funcstack[1] == _kgroup ]]; then
    _kgroup "$@"
else
    compdef _kgroup kgroup
fi
"""


def script(tree: VerbTree) -> str:
    """The whole script."""
    return _HEAD + "".join(map(_function, tree.walk())) + _TAIL


def _name(verb: VerbTree) -> str:
    return "_".join(["_kgroup_verb", *verb.name.split()])


def _function(verb: VerbTree) -> str:
    specs = [_quoted(spec) for option in verb.options for spec in _option(option)]
    if not verb.verbs:
        return _body(verb, (), _call("_arguments -s -S", [*specs, *map(_quoted, _arguments(verb))]))
    declared = [
        'local curcontext="$curcontext" context state state_descr line',
        "local -A opt_args",
        "local -a verbs=(",
        *("    " + _quoted(f"{_escaped(sub.last_name, ':')}:{sub.help}") for sub in verb.verbs),
        ")",
    ]
    call = _call("_arguments -C -s -S", [*specs, "'1:verb:->verb'", "'*::argument:->rest'"])
    return _body(verb, declared, [*call[:-1], call[-1] + " && return", f"_kgroup_below {_name(verb)}"])


def _body(verb: VerbTree, declared: Iterable[str], lines: Iterable[str]) -> str:
    body = "".join(f"    {line}\n" for line in (*declared, *lines))
    return f"\n{_name(verb)}() {{\n{body}}}\n"


def _call(command: str, words: Iterable[str]) -> list[str]:
    lines = [command, *(f"    {word}" for word in words)]
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _option(option: Option) -> Iterator[str]:
    """A spec of ``_arguments`` for each name."""
    help_text = _escaped(option.help, "\\[]")
    before = "*" if option.many else f"({' '.join(option.names)})"
    for name in option.names:
        if option.value is None:
            yield f"{before}{name}[{help_text}]"
        else:
            joint = "=" if name.startswith("--") else "+"
            yield f"{before}{name}{joint}[{help_text}]{_taken(option.value)}"


def _arguments(verb: VerbTree) -> Iterator[str]:
    for place, argument in enumerate(verb.arguments, start=1):
        yield f"{'*' if argument.many else place}{_taken(argument.value)}"


def _taken(value: Value) -> str:
    """Message and action. With a blank before it, zsh calls the action without adding arguments."""
    match value.kind:
        case "words" if any(word.endswith("=") for word in value.words):
            action = f" _kgroup_words {' '.join(value.words)}"
        case "words":
            action = f"({' '.join(value.words)})"
        case "files":
            action = "_files"
        case "directories":
            action = "_files -/"
        case "text":
            action = " "
        case names:
            action = f" _kgroup_names {names}"
    return f":{_escaped(value.label, ':')}:{action}"


def _escaped(text: str, special: str) -> str:
    return "".join("\\" + each if each in special else each for each in text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
