import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { PartProps } from '../sandbox/sandbox-page.tsx'
import { mayRun } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { Cell } from './cell.tsx'
import { Cells } from './cells.ts'
import { Composer } from './composer.tsx'

/** The journal of a sandbox as a notebook, with an editor to run more. */
export function Notebook({ sandbox, info }: PartProps) {
  const cells = useMemo(() => new Cells(sandbox), [sandbox])
  useEffect(() => () => cells.close(), [cells])
  const [context, setContext] = useState('')
  const end = useRef<HTMLDivElement>(null)
  const all = cells.list.value
  const shown = context === '' ? all : all.filter(({ run }) => run.context === context)
  const contexts = [...new Set(['default', ...all.map(({ run }) => run.context)])]
  const last = all.at(-1)
  // A new cell comes into view when the reader was at the end.
  useEffect(() => {
    const isNear = window.innerHeight + window.scrollY > document.body.scrollHeight - 600
    if (isNear) end.current?.scrollIntoView({ block: 'nearest' })
  }, [last])
  return (
    <section class="notebook" aria-label="Notebook">
      {contexts.length > 1 && (
        <fieldset class="looks">
          <legend class="hidden">Context</legend>
          {['', ...contexts].map((name) => (
            <button key={name} type="button" aria-pressed={context === name} onClick={() => setContext(name)}>
              {name === '' ? 'all contexts' : name}
            </button>
          ))}
        </fieldset>
      )}
      {cells.olderCursor.value !== undefined && (
        <button type="button" class="older" onClick={() => void attempt('Read', () => cells.readOlder())}>
          Older runs
        </button>
      )}
      {cells.isLoaded.value && all.length === 0 && (
        <p class="empty">Nothing has run here yet. What an agent runs appears here, live.</p>
      )}
      {shown.map((cell, index) => (
        <Cell
          key={cell.run.runId}
          cell={cell}
          sandbox={sandbox}
          number={index + 1}
          hasContext={contexts.length > 1}
        />
      ))}
      <div ref={end} />
      {mayRun() ? (
        <Composer sandbox={sandbox} isAsleep={info.state === 'standby'} contexts={contexts} />
      ) : (
        <p class="empty">This key may look, and not run.</p>
      )}
    </section>
  )
}
