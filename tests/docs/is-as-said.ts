/**
 * Whether output is what a document shows. What differs from run to run counts as the same: ids, keys, times, sizes
 * and the width of columns. `…` stands for anything on its line, or for any lines when it stands alone.
 */
export function isAsSaid(shown: readonly string[], said: readonly string[]): boolean {
  const [first, ...rest] = said
  if (first === undefined) return shown.length === 0
  if (first.trim() === '…') {
    return Array.from({ length: shown.length + 1 }, (_, left) => left).some((left) =>
      isAsSaid(shown.slice(left), rest),
    )
  }
  const [line, ...following] = shown
  return line !== undefined && isLineAsSaid(line, first) && isAsSaid(following, rest)
}

function isLineAsSaid(shown: string, said: string): boolean {
  const parts = steady(said).split('…').map(escapeForPattern)
  return new RegExp(`^${parts.join('.*')}$`).test(steady(shown))
}

function steady(line: string): string {
  return line
    .replace(/\b(sb|sn|run|pr)-[2-9a-km-np-z]{16}\b/g, '<$1>')
    .replace(/\b\d+(\.\d+)? (ms|s|min|h)\b/g, '<time>')
    .replace(/\b\d+(\.\d+)? [kMGT]?i?B\b/g, '<size>')
    .replace(/\s+/g, ' ')
    .trim()
}

function escapeForPattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
