import type { Node, Word } from './completion-tree.ts'

/** For a file `_dormouse` in a directory of `$fpath`. */
export function zshScript(nodes: readonly Node[]): string {
  const cases = nodes.map(
    ({ path, words, flags, lists, takesFiles }) =>
      `    ${quote(path)}) words_=(${described(words)}); flags_=(${described(flags)}); lists=(${lists.map(quote).join(' ')}); files=${takesFiles ? 1 : 0} ;;`,
  )
  return `#compdef dormouse
_dormouse_node() {
  case $1 in
${cases.join('\n')}
    *) return 1 ;;
  esac
}
_dormouse() {
  local node= at=1 word files list i
  local -a words_ flags_ lists names
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    [[ $word == -* ]] && continue
    if (( at == 1 )) && _dormouse_node "\${node:+$node }$word"; then
      node="\${node:+$node }$word"
    else
      (( at++ ))
    fi
  done
  _dormouse_node "$node"
  if [[ $words[CURRENT] == -* ]]; then
    _describe flag flags_
    return
  fi
  (( $#words_ )) && _describe command words_
  (( at > $#lists )) && at=$#lists
  list=$lists[at]
  if [[ -n $list ]]; then
    names=(\${(f)"$($words[1] \${=list} 2>/dev/null)"})
    compadd -a names
  fi
  (( files )) && _files
  return 0
}
compdef _dormouse dormouse
`
}

function described(words: readonly Word[]): string {
  return words.map(({ word, summary }) => quote(summary === '' ? word : `${word}:${summary}`)).join(' ')
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
