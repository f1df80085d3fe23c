/** RFC 4180, with a comma, a semicolon or a tab, whichever the first line has most of. */
export function parseCsv(text: string): string[][] {
  const [first = ''] = text.split('\n', 1)
  const separator = [',', ';', '\t'].sort(
    (one, other) => first.split(other).length - first.split(one).length,
  )[0]
  const field = new RegExp(`("(?:[^"]|"")*"|[^${separator}\\r\\n]*)(${separator}|\\r?\\n|$)`, 'gy')
  const rows: string[][] = []
  let row: string[] = []
  for (const match of text.matchAll(field)) {
    const [, value = '', end = ''] = match
    if (value === '' && end === '' && row.length === 0) break
    row.push(value.startsWith('"') ? value.slice(1, -1).replaceAll('""', '"') : value)
    if (end === separator) continue
    rows.push(row)
    row = []
    if (end === '') break
  }
  return rows
}
