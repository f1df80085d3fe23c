import type { VariableList } from 'dormouse'
import { useRef, useState } from 'preact/hooks'
import { useRead } from '../parts/use-read.ts'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { ago, bytes, count } from '../words.ts'
import { VariableView } from './variable-view.tsx'

type Listed = VariableList['contexts'][number]
type Variable = Listed['variables'][number]

/** Events after which variables may be others. */
const CONCERNS = new Set(['run.finished', 'sandbox.changed'])

/** What the contexts have in memory. Looking at it neither wakes the sandbox nor runs its code. */
export function VariablesPart({ sandbox, info }: PartProps) {
  const { value, problem } = useRead(
    (signal) => sandbox.variables.list({ signal }),
    sandbox,
    ({ sandboxId, type }) => sandboxId === sandbox.id && CONCERNS.has(type),
  )
  const [search, setSearch] = useState('')
  const [chosen, setChosen] = useState<Chosen>()
  const known = useKnown(value)
  // The rows of a variable are read again when it may have changed, but not because the sandbox fell asleep.
  const lastLive = useRef('')
  if (value?.isLive === true) lastLive.current = value.at ?? ''
  if (value === undefined) return <p class="loading">{problem ?? 'Reading variables…'}</p>
  const rows = known.flatMap((context) =>
    context.variables
      .filter(({ name, type }) => `${name} ${type}`.toLowerCase().includes(search.toLowerCase()))
      .map((variable) => ({ context, variable })),
  )
  return (
    <section class="variables" aria-label="Variables">
      <div class="head">
        <input
          type="search"
          placeholder="Filter by name or type"
          aria-label="Filter variables"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <small>{when(value, known)}</small>
        {problem !== undefined && <span class="problem">{problem}</span>}
      </div>
      {chosen !== undefined && (
        <VariableView
          key={`${chosen.context} ${chosen.name}`}
          {...{ sandbox, info, ...chosen }}
          version={lastLive.current}
          onClose={() => setChosen(undefined)}
        />
      )}
      {rows.length === 0 ? (
        <p class="empty">{known.length === 0 ? 'Nothing has run here yet.' : 'No variable is like this.'}</p>
      ) : (
        <Rows rows={rows} hasContexts={known.length > 1} chosen={chosen} onChoose={setChosen} />
      )}
    </section>
  )
}

interface Chosen {
  readonly context: string
  readonly name: string
}

interface RowsProps {
  readonly rows: readonly { readonly context: Listed; readonly variable: Variable }[]
  readonly hasContexts: boolean
  readonly chosen: Chosen | undefined
  readonly onChoose: (chosen: Chosen) => void
}

function Rows({ rows, hasContexts, chosen, onChoose }: RowsProps) {
  return (
    <div class="scroll">
      <table class="list" aria-label="Variables of the sandbox">
        <Head hasContexts={hasContexts} />
        <tbody>
          {rows.map(({ context, variable }) => (
            <Row
              key={`${context.name} ${variable.name}`}
              context={hasContexts ? context.name : undefined}
              variable={variable}
              isChosen={chosen?.name === variable.name && chosen.context === context.name}
              onOpen={() => onChoose({ context: context.name, name: variable.name })}
            />
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** A context in the middle of a run keeps showing what it had before. */
function useKnown(value: VariableList | undefined): readonly Listed[] {
  const before = useRef(new Map<string, Listed>())
  if (value === undefined) return []
  return value.contexts.map((context) => {
    const shown =
      context.state === 'busy' && context.variables.length === 0
        ? { ...context, variables: before.current.get(context.name)?.variables ?? [] }
        : context
    before.current.set(context.name, shown)
    return shown
  })
}

function when({ isLive, at }: VariableList, contexts: readonly Listed[]): string {
  const busy = contexts.filter(({ state }) => state === 'busy').map(({ name }) => name)
  const more = contexts.some((context) => context.more) ? ' Older ones are not listed.' : ''
  if (!isLive && at === undefined) return 'None were recorded before it slept.'
  if (!isLive) return `As of its last sleep, ${ago(at)}.${more}`
  return (busy.length === 0 ? 'As of the last run.' : `${busy.join(', ')} is running: as of before.`) + more
}

function Head({ hasContexts }: { hasContexts: boolean }) {
  const names = [...(hasContexts ? ['Context'] : []), 'Name', 'Type', 'Shape', 'Size', 'Value']
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th key={name} scope="col">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  )
}

interface RowProps {
  readonly context: string | undefined
  readonly variable: Variable
  readonly isChosen: boolean
  readonly onOpen: () => void
}

function Row({ context, variable, isChosen, onOpen }: RowProps) {
  const { name, type, shape, preview, opens } = variable
  return (
    <tr class={isChosen ? 'chosen' : undefined}>
      {context !== undefined && <td>{context}</td>}
      <td>
        {opens === undefined ? (
          <code>{name}</code>
        ) : (
          <button type="button" class="plain" aria-expanded={isChosen} onClick={onOpen}>
            <code>{name}</code>
          </button>
        )}
      </td>
      <td>{type}</td>
      <td class="number">{shape?.map(count).join(' × ')}</td>
      <td class="number">{variable.bytes !== undefined && bytes(variable.bytes)}</td>
      <td class="short">
        <code>{preview}</code>
      </td>
    </tr>
  )
}
