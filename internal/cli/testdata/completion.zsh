#compdef shop-keeper
# Completion of zsh, by `shop-keeper completion zsh`.
_shop_keeper() {
	if (( CURRENT == 2 )); then
		local -a commands=(
			'sell:sell a thing (there'\''s no credit)'
			'look:look at things'
			'close:close the shop'
			'completion:print what lets a shell complete commands and flags'
			'help:print all commands, or what COMMAND --help prints'
			'version:print the version'
		)
		_describe command commands
		return
	fi
	shift words
	(( CURRENT-- ))
	case $words[1] in
	sell) _arguments -S \
		'-q[say nothing]' \
		'--quiet[say nothing]' \
		'--to=[the CUSTOMER \[a name\: any\] who isn'\''t here]:CUSTOMER:_files' \
		'--wrap[wrap it in PAPER]' \
		'-h[print what the command does]' \
		'--help[print what the command does]' \
		'*:THING \[PRICE\]:_files' ;;
	look) _arguments -S \
		'-o[print it in this FORMAT\: table or json]:FORMAT:(table json)' \
		'--output=[print it in this FORMAT\: table or json]:FORMAT:(table json)' \
		'-h[print what the command does]' \
		'--help[print what the command does]' \
		'*:-- PLACE \[THING...\]:_files' ;;
	close) _arguments -S \
		'-h[print what the command does]' \
		'--help[print what the command does]' ;;
	completion) _arguments -S \
		'-h[print what the command does]' \
		'--help[print what the command does]' \
		'*:SHELL:(bash zsh fish)' ;;
	help) _arguments -S \
		'--man[print the manual page, in roff(7)]' \
		'-h[print what the command does]' \
		'--help[print what the command does]' \
		'*:\[COMMAND\]:(sell look close completion help version)' ;;
	version) _arguments -S \
		'-o[print it in this FORMAT\: text or json]:FORMAT:(text json)' \
		'--output=[print it in this FORMAT\: text or json]:FORMAT:(text json)' \
		'-h[print what the command does]' \
		'--help[print what the command does]' ;;
	esac
}
if [[ $funcstack[1] = _shop_keeper ]]; then
	_shop_keeper "$@"
else
	compdef _shop_keeper shop-keeper
fi
