import { VirtualRows } from '../parts/virtual-rows.tsx'
import { parseCsv } from './parse-csv.ts'

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
