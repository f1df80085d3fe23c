import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Glyph } from '../parts/icons.tsx'
import { count } from '../words.ts'
import { COLUMNS, type TableRows } from './table-rows.ts'

const ROW_PX = 26
const LABEL_PX = 96
const COLUMN_PX = 150
const OVERSCAN = 8
/** Browsers draw nothing beyond about 33 million pixels. Longer tables scroll faster than one row per row. */
const HEIGHT_MAX_PX = 15_000_000
const FILTER_WAIT_MS = 300
const NUMBER = /^(u?int|float|complex|decimal|bool)/i

/** A table that is sorted and filtered in the sandbox, and read as far as it is seen. */
export function VariableTable({ rows, name }: { rows: TableRows; name: string }) {
  const { matches, columns: columnCount } = rows.counts.value
  const columns = rows.columns.value
  const { columnOffset } = rows.arrangement.value
  const grid = {
    gridTemplateColumns: `${LABEL_PX}px repeat(${columns.length}, minmax(${COLUMN_PX}px, 1fr))`,
    minWidth: `${LABEL_PX + columns.length * COLUMN_PX}px`,
  }
  useEffect(() => rows.want(0, 1), [rows])
  return (
    <>
      <Summary rows={rows} />
      <div
        class="csv frame"
        role="table"
        aria-label={`Rows of ${name}`}
        aria-rowcount={matches + 1}
        aria-colcount={columnCount + 1}
      >
        <div class="frame-wide" role="presentation">
          <div class="csv-row head" role="row" style={grid}>
            <span role="columnheader">row</span>
            {columns.map((column, index) => (
              <ColumnHead key={columnOffset + index} {...{ rows, column, index: columnOffset + index }} />
            ))}
          </div>
          <WindowRows rows={rows} grid={grid} />
        </div>
      </div>
    </>
  )
}

function Summary({ rows }: { rows: TableRows }) {
  const { rows: all, matches, columns } = rows.counts.value
  const { columnOffset } = rows.arrangement.value
  const last = Math.min(columnOffset + COLUMNS, columns)
  return (
    <p class="frame-summary">
      <span role="status">
        {matches === all ? `${count(all)} rows` : `${count(matches)} of ${count(all)} rows`}
        {rows.part !== undefined && ` of ${rows.part}`}
      </span>
      {columns > COLUMNS && (
        <span class="row-actions">
          columns {count(columnOffset + 1)} to {count(last)} of {count(columns)}
          <button
            type="button"
            disabled={columnOffset === 0}
            onClick={() => rows.arrange({ columnOffset: Math.max(0, columnOffset - COLUMNS) })}
          >
            Before
          </button>
          <button
            type="button"
            disabled={last === columns}
            onClick={() => rows.arrange({ columnOffset: columnOffset + COLUMNS })}
          >
            After
          </button>
        </span>
      )}
      {rows.problem.value !== undefined && <span class="problem">{rows.problem.value}</span>}
    </p>
  )
}

interface ColumnHeadProps {
  readonly rows: TableRows
  readonly column: { readonly name: string; readonly type: string }
  readonly index: number
}

function ColumnHead({ rows, column: { name, type }, index }: ColumnHeadProps) {
  const { sort, descending, filter } = rows.arrangement.value
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined)
  const isSorted = sort === index
  const order = isSorted ? (descending ? 'descending' : 'ascending') : 'none'
  const change = (text: string) => {
    clearTimeout(timer.current)
    timer.current = setTimeout(() => {
      const { [index]: _, ...others } = rows.arrangement.value.filter
      rows.arrange({ filter: text === '' ? others : { ...others, [index]: text } })
    }, FILTER_WAIT_MS)
  }
  return (
    <span role="columnheader" aria-sort={order}>
      <button
        type="button"
        class="plain"
        title={`${name}, ${type}`}
        onClick={() => rows.arrange({ sort: index, descending: isSorted && !descending })}
      >
        {name} <small>{type}</small>
        {isSorted && (
          <span class={descending ? 'order' : 'order up'}>
            <Glyph name="chevron" />
          </span>
        )}
      </button>
      <input
        aria-label={`Filter ${name}`}
        placeholder="text, =a, >5"
        defaultValue={filter[index] ?? ''}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </span>
  )
}

/** Only the rows on the screen exist. */
function WindowRows({ rows, grid }: { rows: TableRows; grid: Record<string, string> }) {
  const box = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ top: 0, height: 400 })
  const { matches } = rows.counts.value
  rows.version.value
  useLayoutEffect(() => {
    const element = box.current
    if (element === null) return
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight })
    measure()
    element.addEventListener('scroll', measure, { passive: true })
    return () => element.removeEventListener('scroll', measure)
  }, [])
  const height = Math.min(matches * ROW_PX, HEIGHT_MAX_PX)
  // How far the place of the scroll bar is through all rows.
  const scrollable = Math.max(1, height - view.height)
  const top = Math.floor(Math.min(1, view.top / scrollable) * Math.max(0, matches - view.height / ROW_PX))
  const first = Math.max(0, top - OVERSCAN)
  const last = Math.min(matches, top + Math.ceil(view.height / ROW_PX) + OVERSCAN)
  useEffect(() => {
    if (last > first) rows.want(first, last - 1)
  }, [rows, first, last, rows.arrangement.value])
  const columns = rows.columns.value
  const shift = Math.max(0, Math.min(view.top - (top - first) * ROW_PX, height - (last - first) * ROW_PX))
  return (
    <div class="virtual" ref={box} role="rowgroup" aria-label="Rows" tabIndex={0}>
      <div style={{ height: `${height}px` }} role="presentation">
        <div style={{ transform: `translateY(${shift}px)` }} role="presentation">
          {Array.from({ length: last - first }, (_, index) => {
            const row = rows.row(first + index)
            return (
              <div
                key={first + index}
                class="csv-row"
                role="row"
                style={{ ...grid, height: `${ROW_PX}px` }}
                aria-rowindex={first + index + 2}
              >
                <span role="rowheader">{row?.label ?? '…'}</span>
                {columns.map(({ type }, at) => (
                  <span key={at} role="cell" class={NUMBER.test(type) ? 'number' : undefined}>
                    {row === undefined ? '' : (row.cells[at] ?? <i class="missing">missing</i>)}
                  </span>
                ))}
              </div>
            )
          })}
        </div>
      </div>
    </div>
  )
}
