import type { Sandbox, SandboxInfo, VariableDetail } from 'dormouse'
import { useState } from 'preact/hooks'
import { Glyph } from '../parts/icons.tsx'
import { useRead } from '../parts/use-read.ts'
import { NeedsAwake } from '../sandbox/needs-awake.tsx'
import { count } from '../words.ts'
import { TableRows } from './table-rows.ts'
import { VariableTable } from './variable-table.tsx'

interface VariableViewProps {
  readonly sandbox: Sandbox
  readonly info: SandboxInfo
  readonly context: string
  readonly name: string
  /** Changes when the variable may have changed. */
  readonly version: string
  readonly onClose: () => void
}

/** One variable: its rows, its picture or its text. */
export function VariableView(props: VariableViewProps) {
  const { info, name, onClose } = props
  return (
    <section class="panel variable" aria-label={`Variable ${name}`}>
      <header class="files-head">
        <strong>
          <code>{name}</code>
        </strong>
        <span class="spacer" />
        <button type="button" aria-label={`Close ${name}`} onClick={onClose}>
          <Glyph name="close" />
        </button>
      </header>
      <NeedsAwake info={info} what="Single variables">
        <Content {...props} />
      </NeedsAwake>
    </section>
  )
}

function Content({ sandbox, context, name, version }: VariableViewProps) {
  const [isTable, setIsTable] = useState(false)
  const { value, problem } = useRead(
    (signal) => sandbox.variables.read(name, { context, limit: 0, columns: 1, signal }),
    version,
    undefined,
    { followsGaps: false },
  )
  if (value === undefined) return <p class="loading">{problem ?? 'Reading…'}</p>
  const { image, text, table } = value
  if (image !== undefined && !isTable)
    return (
      <figure class="picture-view">
        <img class="picture" src={`data:image/png;base64,${image.png}`} alt={name} />
        <figcaption>
          {count(image.width)} × {count(image.height)}
          {table !== undefined && (
            <button type="button" onClick={() => setIsTable(true)}>
              Show its numbers
            </button>
          )}
        </figcaption>
      </figure>
    )
  if (text !== undefined) return <pre class="text">{text}</pre>
  if (table === undefined) return <p class="empty">{value.variable.preview}</p>
  return <Rows key={version} {...{ sandbox, context, name, table }} />
}

interface RowsProps {
  readonly sandbox: Sandbox
  readonly context: string
  readonly name: string
  readonly table: NonNullable<VariableDetail['table']>
}

function Rows({ sandbox, context, name, table }: RowsProps) {
  const [rows] = useState(
    () =>
      new TableRows(table, (options) => sandbox.variables.read(name, { context, ...options }).then(tableOf)),
  )
  return <VariableTable rows={rows} name={name} />
}

function tableOf({ table }: VariableDetail): NonNullable<VariableDetail['table']> {
  if (table === undefined) throw new Error('This is no table any more.')
  return table
}
