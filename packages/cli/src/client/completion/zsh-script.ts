import type { Node, Word } from './completion-tree.ts'

/** For a file `_dormouse` in a directory of `$fpath`. */
export function zshScript(nodes: readonly Node[]): string {
  const cases = nodes.map(
    ({ path, words, flags, wants }) =>
      `    ${quote(path)}) words_=(${described(words)}); flags_=(${described(flags)}); wants=${wants} ;;`,
  )
  return `#compdef dormouse
_dormouse_node() {
  case $1 in
${cases.join('\n')}
    *) return 1 ;;
  esac
}
_dormouse() {
  local node= word wants i
  local -a words_ flags_ names
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    [[ $word == -* ]] && continue
    _dormouse_node "\${node:+$node }$word" || break
    node="\${node:+$node }$word"
  done
  _dormouse_node "$node"
  if [[ $words[CURRENT] == -* ]]; then
    _describe flag flags_
    return
  fi
  (( $#words_ )) && _describe command words_
  if [[ $wants == sandbox || $wants == copy ]]; then
    names=(\${(f)"$($words[1] ls -q 2>/dev/null)"})
    compadd -a names
  fi
  [[ $wants == copy ]] && _files
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
