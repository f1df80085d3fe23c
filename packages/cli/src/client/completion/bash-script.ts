import type { Node } from './completion-tree.ts'

/** For `/etc/bash_completion.d` or `source <(dormouse completion bash)`. */
export function bashScript(nodes: readonly Node[]): string {
  const cases = nodes.map(({ path, words, flags, wants }) => {
    const list = (items: Node['words']) => items.map(({ word }) => word).join(' ')
    return `    ${JSON.stringify(path)}) words=${JSON.stringify(list(words))}; flags=${JSON.stringify(list(flags))}; wants=${wants} ;;`
  })
  return `# bash completion of dormouse
_dormouse() {
  local current=\${COMP_WORDS[COMP_CWORD]} path= word words flags wants i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    [[ $word == -* ]] && continue
    _dormouse_node "\${path:+$path }$word" || break
    path="\${path:+$path }$word"
  done
  _dormouse_node "$path"
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ $wants == sandbox || $wants == copy ]]; then
    COMPREPLY+=($(compgen -W "$("\${COMP_WORDS[0]}" ls -q 2>/dev/null)" -- "$current"))
  fi
  [[ $wants == copy ]] && COMPREPLY+=($(compgen -f -- "$current"))
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
