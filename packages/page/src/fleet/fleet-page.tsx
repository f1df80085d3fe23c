import { useMemo, useRef, useState } from 'preact/hooks'
import { Glyph } from '../parts/icons.tsx'
import type { Look } from '../parts/state-badge.tsx'
import { VirtualRows } from '../parts/virtual-rows.tsx'
import { navigate } from '../router.tsx'
import { activityOf, fleet, isLoaded, wantActivity } from '../state/fleet.ts'
import { mayRun } from '../state/session.ts'
import { count } from '../words.ts'
import { BulkBar } from './bulk-bar.tsx'
import { FirstVisit } from './first-visit.tsx'
import { FleetRow } from './fleet-row.tsx'
import { NewSandbox } from './new-sandbox.tsx'
import { type Selection, SORTS, type Sort, selectRows } from './select-rows.ts'
import { Summary } from './summary.tsx'
import { useFleetKeys } from './use-fleet-keys.ts'

const ROW_PX = 40
const LOOKS: readonly (Look | 'all')[] = ['all', 'running', 'frozen', 'stored', 'failed']

/** All sandboxes. */
export function FleetPage() {
  const [selection, setSelection] = useState<Selection>({
    ...{ look: 'all', text: '', sort: 'active', isDescending: true },
  })
  const change = (part: Partial<Selection>) => setSelection((before) => ({ ...before, ...part }))
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set())
  const isShow = useRef(false)
  const search = useRef<HTMLInputElement>(null)
  const all = fleet.value
  const rows = useMemo(
    () => selectRows(all, selection, (id) => activityOf(id)?.memoryBytes),
    [all, selection],
  )
  const pick = (id: string) => setPicked((before) => toggled(before, id))
  const { cursor, onKeyDown } = useFleetKeys({ rows, pick, search })
  const selected = rows.filter(({ id }) => picked.has(id))
  if (!isLoaded.value) return <p class="loading">Reading sandboxes…</p>
  // The show stays while the sandbox that it makes is there.
  if (all.length === 0) isShow.current = true
  if (isShow.current) return <FirstVisit />
  return (
    <div class="fleet" onKeyDown={onKeyDown}>
      <header class="head">
        <h1>Fleet</h1>
        <Filters selection={selection} change={change} search={search} />
        {mayRun() && <NewSandbox onMade={(id) => navigate(`/sandboxes/${id}`)} />}
      </header>
      <Summary />
      <div class="table" role="table" aria-label="Sandboxes" aria-rowcount={rows.length + 1}>
        <Columns selection={selection} change={change} rows={rows} picked={picked} setPicked={setPicked} />
        <VirtualRows
          items={rows}
          rowPx={ROW_PX}
          label="Sandboxes"
          keyOf={({ id }) => id}
          cursor={cursor}
          onShown={(shown) => wantActivity(shown.map(({ id }) => id))}
          render={(info, index) => (
            <FleetRow
              {...{ info, index }}
              isCursor={index === cursor}
              isSelected={picked.has(info.id)}
              onSelect={() => pick(info.id)}
            />
          )}
        />
        {rows.length === 0 && <p class="empty">No sandbox matches.</p>}
      </div>
      {mayRun() && <BulkBar selected={selected} onClear={() => setPicked(new Set())} />}
    </div>
  )
}

interface ChangeSelection {
  readonly selection: Selection
  readonly change: (part: Partial<Selection>) => void
}

function Filters({
  selection,
  change,
  search,
}: ChangeSelection & { search: { current: HTMLInputElement | null } }) {
  return (
    <div class="filters">
      <label class="search">
        <Glyph name="search" />
        <span class="hidden">Search</span>
        <input
          ref={search}
          type="search"
          placeholder="Search name, id, template, metadata"
          value={selection.text}
          onInput={(event) => change({ text: event.currentTarget.value })}
        />
        <kbd>/</kbd>
      </label>
      <fieldset class="looks">
        <legend class="hidden">State</legend>
        {LOOKS.map((look) => (
          <button
            key={look}
            type="button"
            aria-pressed={selection.look === look}
            onClick={() => change({ look })}
          >
            {look}
          </button>
        ))}
      </fieldset>
    </div>
  )
}

interface ColumnsProps extends ChangeSelection {
  readonly rows: readonly { id: string }[]
  readonly picked: ReadonlySet<string>
  readonly setPicked: (ids: ReadonlySet<string>) => void
}

function Columns({ selection, change, rows, picked, setPicked }: ColumnsProps) {
  const isAll = rows.length > 0 && rows.every(({ id }) => picked.has(id))
  const toggleAll = () => setPicked(isAll ? new Set() : new Set(rows.map(({ id }) => id)))
  const sorter = (sort: Sort, name: string, classes = '') => {
    const isIt = selection.sort === sort
    const order = isIt ? (selection.isDescending ? 'descending' : 'ascending') : 'none'
    return (
      <span role="columnheader" class={classes} aria-sort={order}>
        <button type="button" onClick={() => change({ sort, isDescending: isIt && !selection.isDescending })}>
          {name}
          {isIt && <span aria-hidden="true">{selection.isDescending ? ' ↓' : ' ↑'}</span>}
        </button>
      </span>
    )
  }
  return (
    <div class="row columns" role="row">
      <span role="columnheader" class="pick">
        <input
          type="checkbox"
          checked={isAll}
          onChange={toggleAll}
          aria-label={`Select all ${count(rows.length)}`}
        />
      </span>
      {sorter('state', SORTS.state)}
      {sorter('name', SORTS.name, 'title')}
      {sorter('template', SORTS.template, 'template')}
      {sorter('memory', SORTS.memory, 'memory number')}
      <span role="columnheader" class="why">
        Why
      </span>
      <span role="columnheader" class="day">
        Last 24 hours
      </span>
      <span role="columnheader" class="run">
        Last run
      </span>
      {sorter('active', SORTS.active, 'number since')}
    </div>
  )
}

function toggled(set: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const next = new Set(set)
  if (!next.delete(id)) next.add(id)
  return next
}
