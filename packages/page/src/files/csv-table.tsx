import { VirtualRows } from '../parts/virtual-rows.tsx'

const ROW_PX = 26
const COLUMNS_MAX = 60

/** A CSV or TSV file as a table. */
export function CsvTable({ text }: { text: string }) {
  const [head = [], ...rows] = parseCsv(text)
  const columns = head.slice(0, COLUMNS_MAX)
  const grid = { gridTemplateColumns: `repeat(${columns.length}, minmax(90px, 1fr))` }
  return (
    <div class="csv" role="table" aria-label="Contents" aria-rowcount={rows.length + 1}>
      <div class="csv-row head" role="row" style={grid}>
        {columns.map((name, index) => (
          <span key={index} role="columnheader">
            {name}
          </span>
        ))}
      </div>
      <VirtualRows
        items={rows}
        rowPx={ROW_PX}
        label="Rows"
        keyOf={(row) => String(rows.indexOf(row))}
        render={(row) => (
          <div class="csv-row" role="row" style={grid}>
            {columns.map((_name, index) => (
              <span key={index} role="cell">
                {row[index] ?? ''}
              </span>
            ))}
          </div>
        )}
      />
    </div>
  )
}

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
