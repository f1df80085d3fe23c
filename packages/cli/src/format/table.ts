/** Pads every column to its widest cell. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const columns = Math.max(0, ...rows.map((row) => row.length))
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows.map((row) => `${formatRow(row, widths)}\n`).join('')
}

function formatRow(row: readonly string[], widths: readonly number[]): string {
  return row
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join('  ')
    .trimEnd()
}

/** One line per field; fields without a value are left out. */
export function formatFields(fields: readonly (readonly [string, string | undefined])[]): string {
  return formatTable(fields.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
}
