"""The script for bash, 3.2 and later; it needs no bash-completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kgroup.cli.completion.tree import Value, VerbTree

_HEAD = """\
# Completion for bash. Made by: kgroup completion bash
# Load it with: eval "$(kgroup completion bash)"
"""

_MAIN = r"""
# The names of a kind, as they have to be inserted. They are text to show and never run or expanded.
_kgroup_names() {
    local name names
    names=$(KGROUP_LINE=$line "$kgroup" __complete "$1" bash "$COMP_WORDBREAKS" 2>/dev/null </dev/null)
    while IFS= read -r name; do
        [[ $name ]] && COMPREPLY+=("$name")
    done <<< "$names"
}

# What may stand at the cursor: of a kind, or one of the words.
_kgroup_offer() {
    local kind=$1 word
    shift
    case $kind in
        words)
            # The line editor leaves alone what stands before the last of these in the word.
            local breaks=${COMP_WORDBREAKS//[^=:]/} kept=''
            [[ $breaks ]] && kept=${before}${cur} && kept=${kept%"${kept##*[$breaks]}"}
            for word in "$@"; do
                [[ $word == "$cur"* ]] || continue
                [[ $word == *= ]] && compopt -o nospace 2>/dev/null
                word=$before$word
                COMPREPLY+=("${word#"$kept"}")
            done ;;
        groups|topics|contexts) _kgroup_names "$kind" ;;
        files) compopt -o default 2>/dev/null ;;
        directories) compopt -o dirnames 2>/dev/null ;;
    esac
}

_kgroup() {
    local IFS=$' \t\n'
    local kgroup=${1/#\~/$HOME} line=${COMP_LINE:0:COMP_POINT}
    local rest=$line trimmed word i verb='' count=1 skip='' only_arguments='' before='' cur
    local -a typed=() words=() takes=()
    type -P "$kgroup" >/dev/null || kgroup=kgroup
    COMPREPLY=()

    # COMP_WORDS is cut at : and = too; what is not separated by blanks is one word.
    for ((i = 0; i <= COMP_CWORD; i++)); do
        trimmed=${rest#"${rest%%[![:space:]]*}"}
        word=${COMP_WORDS[i]}
        ((i == COMP_CWORD)) && word=$trimmed
        if [[ $i == 0 || $trimmed != "$rest" ]]; then
            typed+=("$word")
        else
            typed[${#typed[@]}-1]+=$word
        fi
        rest=${trimmed#"$word"}
    done

    for ((i = 1; i < ${#typed[@]} - 1; i++)); do
        word=${typed[i]}
        if [[ $skip ]]; then
            skip=''
        elif [[ $only_arguments ]]; then
            ((count++))
        elif [[ $word == -- ]]; then
            only_arguments=yes
        elif [[ $word == -* ]]; then
            _kgroup_takes "$verb" "$word" && skip=yes
        elif _kgroup_is_verb "${verb:+$verb }$word"; then
            verb=${verb:+$verb }$word
        else
            ((count++))
        fi
    done

    cur=${typed[${#typed[@]}-1]}
    if [[ $skip ]]; then
        _kgroup_offer "${takes[@]}"
    elif [[ ! $only_arguments && $cur == --*=* ]]; then
        if _kgroup_takes "$verb" "${cur%%=*}"; then
            before=${cur%%=*}=
            cur=${cur#*=}
            _kgroup_offer "${takes[@]}"
        fi
    elif [[ ! $only_arguments && $cur == -* ]]; then
        _kgroup_options "$verb"
        _kgroup_offer words "${words[@]}"
    else
        _kgroup_verbs "$verb"
        [[ ${#words[@]} == 0 ]] || _kgroup_offer words "${words[@]}"
        _kgroup_argument "$verb" "$count" && _kgroup_offer "${takes[@]}"
    fi
}

complete -F _kgroup kgroup
"""


def script(tree: VerbTree) -> str:
    """The whole script."""
    verbs = list(tree.walk())
    parts = [
        _function(
            "_kgroup_is_verb",
            "Whether these words are the full name of a verb.",
            [*(f"{_quoted(verb.name)}) return 0 ;;" for verb in verbs if verb.name), "*) return 1 ;;"],
            "$1",
        ),
        _function(
            "_kgroup_verbs",
            "The verbs below a verb.",
            [_words_case(verb.name, (sub.last_name for sub in verb.verbs)) for verb in verbs if verb.verbs],
            "$1",
        ),
        _function(
            "_kgroup_options",
            "The options of a verb.",
            [_words_case(verb.name, (name for opt in verb.options for name in opt.names)) for verb in verbs],
            "$1",
        ),
        _function("_kgroup_takes", "What an option of a verb takes.", [*_takes(verbs), "*) return 1 ;;"], "$1:$2"),
        _function(
            "_kgroup_argument", "What the argument at a place is.", [*_arguments(verbs), "*) return 1 ;;"], "$1:$2"
        ),
    ]
    return _HEAD + "".join(parts) + _MAIN


def _function(name: str, comment: str, cases: Iterable[str], subject: str) -> str:
    lines = "".join(f"        {case}\n" for case in cases)
    return f"\n# {comment}\n{name}() {{\n    case {subject} in\n{lines}    esac\n}}\n"


def _words_case(verb: str, words: Iterable[str]) -> str:
    return f"{_quoted(verb)}) words=({' '.join(map(_quoted, words))}) ;;"


def _takes(verbs: list[VerbTree]) -> Iterator[str]:
    """One case per option with a value; a single case for all verbs if the value is the same in all."""
    found: dict[tuple[str, ...], dict[Value | None, list[str]]] = {}
    for verb in verbs:
        for option in verb.options:
            found.setdefault(option.names, {}).setdefault(option.value, []).append(verb.name)
    for names, values in found.items():
        for value, where in values.items():
            if value is not None:
                places = ["*"] if len(values) == 1 else [_quoted(verb) for verb in where]
                pattern = "|".join(f"{place}:{name}" for place in places for name in names)
                yield f"{pattern}) takes=({_taken(value)}) ;;"


def _arguments(verbs: list[VerbTree]) -> Iterator[str]:
    for verb in verbs:
        for place, argument in enumerate(verb.arguments, start=1):
            yield f"{_quoted(verb.name)}:{'*' if argument.many else place}) takes=({_taken(argument.value)}) ;;"


def _taken(value: Value) -> str:
    return " ".join([value.kind, *map(_quoted, value.words)])


def _quoted(word: str) -> str:
    """Add shell quotes if they are needed. The words are kgroup's own, and plain."""
    plain = word and all(each.isalnum() or each in "-_./" for each in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"
