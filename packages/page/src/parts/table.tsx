import type { ComponentChildren } from 'preact'

interface TableProps {
  readonly label: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly ComponentChildren[])[]
  readonly empty: string
}

/** A plain table for lists that fit on a page. */
export function Table({ label, head, rows, empty }: TableProps) {
  if (rows.length === 0) return <p class="empty">{empty}</p>
  return (
    <div class="scroll">
      <table class="list" aria-label={label}>
        <thead>
          <tr>
            {head.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {row.map((cell, column) => (
                <td key={head[column]}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
