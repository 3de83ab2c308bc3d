# Completion for fish 3.1 and later. Put it into ~/.config/fish/completions as kgroup.fish, or load it with:
# kgroup completion fish | source

# kgroup reads the line, which it never runs or expands. It answers with what to complete, and one word and its
# description per line. Returns 1 where fish has to complete files.
function __kgroup_ask
    set -l kgroup (commandline -opc | string replace -r '^~/' $HOME/)[1]
    command -q -- $kgroup; or set kgroup kgroup
    set -lx KGROUP_LINE (commandline -cp | string collect)
    set -l rows ($kgroup __complete fish 2>/dev/null </dev/null)
    set -g __kgroup_words $rows[2..]
    switch "$rows[1]"
        case 'files*'
            return 1
        case 'directories*'
            set -l before (string sub -l (string split ' ' $rows[1])[2] -- (commandline -ct))
            set -g __kgroup_words $before(__fish_complete_directories (string replace -- "$before" '' (commandline -ct)))
    end
end

complete -c kgroup -n __kgroup_ask -f -a '$__kgroup_words'
