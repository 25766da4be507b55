# Completion of bash, by `shop-keeper completion bash`.
_shop_keeper() {
	local words=
	[[ " ${COMP_WORDS[*]:1:COMP_CWORD-1} " = *' -- '* ]] && return
	case $COMP_CWORD,${COMP_WORDS[1]},$3,$2 in
	1,*) words='sell look close completion help version' ;;
	*,sell,--to,*) ;;
	*,sell,*,-*) words='-q --quiet --to --wrap -h --help' ;;
	*,look,-o,*) words='table json' ;;
	*,look,--output,*) words='table json' ;;
	*,look,*,-*) words='-o --output -h --help' ;;
	*,close,*,-*) words='-h --help' ;;
	*,completion,*,-*) words='-h --help' ;;
	2,completion,*) words='bash zsh fish' ;;
	*,help,*,-*) words='--man -h --help' ;;
	2,help,*) words='sell look close completion help version' ;;
	*,version,-o,*) words='text json' ;;
	*,version,--output,*) words='text json' ;;
	*,version,*,-*) words='-o --output -h --help' ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}
complete -o default -F _shop_keeper shop-keeper
