import type { Sandbox } from 'dormouse'
import { useEffect, useRef } from 'preact/hooks'
import { OutputView } from '../output/output-view.tsx'
import { Glyph } from '../parts/icons.tsx'
import { mayRun } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'
import { ago, clock, duration } from '../words.ts'
import type { CellModel } from './cell-model.ts'
import { Highlighted } from './highlighted.tsx'

interface CellProps {
  readonly cell: CellModel
  readonly sandbox: Sandbox
  readonly number: number
  readonly hasContext: boolean
}

/** One run: its code and what came of it. */
export function Cell({ cell, sandbox, number, hasContext }: CellProps) {
  const box = useRef<HTMLElement>(null)
  useEffect(() => {
    const element = box.current
    if (element === null) return
    // Cells far away are not read: an image in each of a thousand runs would be too much.
    const observer = new IntersectionObserver(
      (seen) => seen.some((one) => one.isIntersecting) && cell.read(),
      {
        rootMargin: '600px',
      },
    )
    observer.observe(element)
    return () => observer.disconnect()
  }, [cell])
  const { run } = cell
  const state = cell.state.value
  const isOpen = state === 'queued' || state === 'running'
  return (
    <article class={`cell ${state} ${outcomeOf(cell)}`} ref={box} aria-label={`Run ${number}`}>
      <div class="gutter">
        <span class="number">[{number}]</span>
        <span title={clock(run.startedAt)}>{ago(run.startedAt)}</span>
      </div>
      <div class="body">
        <div class="code">
          <Highlighted code={run.code ?? '(the code is not recorded)'} language={run.language} />
          {run.isCodeCut === true && <small>… the rest of the code is not recorded</small>}
        </div>
        <div class="outputs">
          {cell.outputs.value.map((output, index) => (
            <OutputView key={index} output={output} cell={cell} sandbox={sandbox} />
          ))}
        </div>
        <footer>
          {run.language !== 'python' && <span>{run.language}</span>}
          {hasContext && <span>{run.context}</span>}
          <Status cell={cell} />
          {isOpen && mayRun() && (
            <button
              type="button"
              onClick={() => void attempt('Interrupt', () => sandbox.runs.interrupt(run.runId))}
            >
              <Glyph name="stop" /> Interrupt
            </button>
          )}
        </footer>
      </div>
    </article>
  )
}

function outcomeOf(cell: CellModel): string {
  const code = cell.exit.value?.exitCode ?? cell.run.exitCode
  return code === undefined || code === 0 ? '' : 'bad'
}

function Status({ cell }: { cell: CellModel }) {
  const exit = cell.exit.value
  const state = cell.state.value
  if (cell.problem.value !== undefined) return <span class="problem">{cell.problem.value}</span>
  if (state === 'running') return <span class="busy">running</span>
  if (state === 'queued') return <span class="busy">queued</span>
  if (state === 'lost') return <span class="problem">lost with the processes of the sandbox</span>
  if (exit === undefined) return null
  const words = [
    exit.timedOut === true && 'timed out',
    exit.interrupted === true && 'interrupted',
    exit.outOfMemory,
    exit.exitCode !== 0 && `exit ${exit.exitCode}`,
    duration(exit.durationMs),
  ]
  return <span>{words.filter(Boolean).join(' · ')}</span>
}
