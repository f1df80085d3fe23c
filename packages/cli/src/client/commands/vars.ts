import type { VariableDetail, VariableList } from 'dormouse'
import { formatBytes } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'

interface VarsFlags {
  readonly context?: string
  readonly offset?: number
  readonly lines?: number
  readonly sort?: string
  readonly filter?: readonly string[]
}

const LINES = 20
const COLUMNS = 12

/** Shows what contexts have in memory; with a name, the rows of one variable. */
export async function vars(
  call: Call,
  ref: string,
  name: string | undefined,
  flags: VarsFlags,
): Promise<void> {
  const sandbox = await call.sandbox(ref)
  if (name !== undefined) return showOne(call, sandbox, name, flags)
  const all = await sandbox.variables.list({ signal: call.signal })
  const found =
    flags.context === undefined
      ? all
      : { ...all, contexts: all.contexts.filter((one) => one.name === flags.context) }
  call.printResult(found, formatVariables(found))
  if (!found.isLive && found.at !== undefined) call.note(`The sandbox sleeps. Recorded at ${found.at}.`)
  if (found.contexts.every(({ variables }) => variables.length === 0)) call.note('There are no variables.')
}

function formatVariables({ contexts }: VariableList): string {
  const rows = contexts.flatMap(({ name, variables }) =>
    variables.map((one) => [
      name,
      one.name,
      one.type,
      one.shape?.join(' × ') ?? '',
      one.bytes === undefined ? '' : formatBytes(one.bytes),
      one.preview,
    ]),
  )
  return rows.length === 0
    ? ''
    : formatTable([['CONTEXT', 'NAME', 'TYPE', 'SHAPE', 'SIZE', 'VALUE'], ...rows])
}

async function showOne(
  call: Call,
  sandbox: Awaited<ReturnType<Call['sandbox']>>,
  name: string,
  { context = 'default', offset = 0, lines = LINES, sort, filter = [] }: VarsFlags,
): Promise<void> {
  const options = { context, offset, limit: lines, columns: COLUMNS, signal: call.signal }
  const columns = new Map<string, number>()
  if (sort !== undefined || filter.length > 0) {
    const { table } = await sandbox.variables.read(name, { ...options, limit: 0, columns: 100 })
    table?.columns.forEach((column, index) => void columns.set(column.name, index))
  }
  const detail = await sandbox.variables.read(name, {
    ...options,
    ...(sort !== undefined && {
      sort: positionOf(columns, sort.replace(/^-/, '')),
      descending: sort.startsWith('-'),
    }),
    filter: Object.fromEntries(filter.map((text) => parseFilter(columns, text))),
  })
  call.printResult(detail, formatDetail(detail))
}

/** `price>5`, `name=Ada`, or `name:part`. */
function parseFilter(columns: ReadonlyMap<string, number>, text: string): [number, string] {
  const [, column = '', expression = ''] = /^(.*?)(?::|(?=>=|<=|!=|>|<|=))(.*)$/s.exec(text) ?? []
  return [positionOf(columns, column), expression]
}

function positionOf(columns: ReadonlyMap<string, number>, name: string): number {
  const found = columns.get(name)
  if (found !== undefined) return found
  throw new UsageError(`There is no column "${name}".`, `Columns: ${[...columns.keys()].join(', ')}.`)
}

function formatDetail({ variable, table, text, image }: VariableDetail): string {
  if (text !== undefined) return `${text}\n`
  if (table === undefined)
    return image === undefined
      ? `${variable.preview}\n`
      : `${variable.type}, ${image.width} × ${image.height} pixels\n`
  const { columns, rows, rowCount, matchCount, columnCount, part } = table
  const head = ['', ...columns.map(({ name }) => name)]
  const lines = rows.map(({ label, cells }) => [label, ...cells.map((cell) => cell ?? '')])
  const count = matchCount === rowCount ? `${rowCount} rows` : `${matchCount} of ${rowCount} rows`
  const place = part === undefined ? '' : `${part}, `
  return `${formatTable([head, ...lines])}${place}${count}, ${columnCount} columns\n`
}
