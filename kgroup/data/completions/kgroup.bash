# Completion for bash 3.2 and later, without bash-completion. Load it with: eval "$(kgroup completion bash)"

# kgroup reads the line, which it never runs or expands. It answers with what to complete, and one word per line, quoted.
_kgroup() {
    local kgroup=${1/#\~/$HOME} kind='' row
    type -P "$kgroup" >/dev/null || kgroup=kgroup
    COMPREPLY=()
    while IFS= read -r row; do
        if [[ ! $kind ]]; then
            kind=$row
        else
            COMPREPLY+=("$row")
            [[ $row == *= ]] && compopt -o nospace 2>/dev/null
        fi
    done <<< "$(KGROUP_LINE=${COMP_LINE:0:COMP_POINT} "$kgroup" __complete bash "$COMP_WORDBREAKS" 2>/dev/null </dev/null)"
    case $kind in
        files*) compopt -o default 2>/dev/null ;;
        directories*) compopt -o dirnames 2>/dev/null ;;
    esac
}

complete -F _kgroup kgroup
