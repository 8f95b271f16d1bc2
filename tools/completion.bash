# SPDX-License-Identifier: BSD-3-Clause
# Completion of the tools' arguments in bash: options, commands and the names of tunables, as the
# tools themselves say them. Installed once for each tool.

_loco_tool() {
    local tool=$1 now=$2 before=$3 command=''
    [ "${tool##*/}" != loco-sim ] || command=${COMP_WORDS[1]}
    case $before in
    --json|--help|-h|--version) ;;
    -*) [ "${tool##*/}" = loco-info ] || { COMPREPLY=(); return; } ;;      # its value: a file, or a number
    esac
    # Of --help the options; of its first lines, and of lists of commands, the words that begin them.
    # shellcheck disable=SC2207
    COMPREPLY=($(compgen -W "$(
        case $now in
        -*)
            { "$tool" --help; [ -z "$command" ] || "$tool" "$command" --help; } 2>/dev/null </dev/null \
                | grep -o -e '--[a-z][a-z-]*' | sort -u ;;
        *)
            case ${tool##*/} in
            loco-info)
                echo versions node fabrics tunables
                "$tool" tunables 2>/dev/null </dev/null | sed -n 's/^  \(LOCO_[A-Z0-9_]*\).*/\1/p' ;;
            loco-agent) [ "$COMP_CWORD" -gt 1 ] || echo run start status stop ;;
            loco-sim)
                if [ "$COMP_CWORD" -eq 1 ]; then
                    echo list explore replay litmus scale
                else
                    "$tool" list 2>/dev/null </dev/null | sed 's/ .*//'
                fi ;;
            esac ;;
        esac)" -- "$now"))
}
complete -o default -F _loco_tool loco-agent loco-info loco-perf loco-sim loco-trace-merge
# What loco-run runs is a command.
complete -F _command loco-run 2>/dev/null || complete -c loco-run
