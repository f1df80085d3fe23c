import type { Node } from './completion-tree.ts'

/** For `/etc/bash_completion.d` or `source <(dormouse completion bash)`. */
export function bashScript(nodes: readonly Node[]): string {
  const cases = nodes.map(({ path, words, flags, lists, takesFiles }) => {
    const list = (items: Node['words']) => items.map(({ word }) => word).join(' ')
    return `    ${JSON.stringify(path)}) words=${JSON.stringify(list(words))}; flags=${JSON.stringify(list(flags))}; lists=${JSON.stringify(lists.map((list) => list || '-').join('|') || '-')}; files=${takesFiles ? 1 : 0} ;;`
  })
  return `# bash completion of dormouse
_dormouse() {
  local current=\${COMP_WORDS[COMP_CWORD]} path= at=0 word words flags lists files list i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word == -* ]] && continue
    if ((at == 0)) && _dormouse_node "\${path:+$path }$word"; then
      path="\${path:+$path }$word"
    else
      ((at++))
    fi
  done
  _dormouse_node "$path"
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  IFS='|' read -ra lists <<< "$lists"
  list=\${lists[at < \${#lists[@]} ? at : \${#lists[@]} - 1]}
  if [[ $list != - ]]; then
    COMPREPLY+=($(compgen -W "$("\${COMP_WORDS[0]}" $list 2>/dev/null)" -- "$current"))
  fi
  ((files)) && COMPREPLY+=($(compgen -f -- "$current"))
  return 0
}
_dormouse_node() {
  case $1 in
${cases.join('\n')}
    *) return 1 ;;
  esac
}
complete -o default -F _dormouse dormouse
`
}
