import type { Sandbox } from 'dormouse'
import { useState } from 'preact/hooks'
import type { CellModel, Output } from '../notebook/cell-model.ts'
import { mayRun } from '../state/session.ts'
import { attempt } from '../state/toasts.ts'

interface InputLineProps {
  readonly output: Extract<Output, { kind: 'input' }>
  readonly cell: CellModel
  readonly sandbox: Sandbox
}

/** A question of the code (`input()`), with room for the answer while it waits. */
export function InputLine({ output, cell, sandbox }: InputLineProps) {
  const [answered, setAnswered] = useState<string>()
  const isLast = cell.outputs.value.findLast(({ kind }) => kind === 'input') === output
  const isOpen = isLast && answered === undefined && cell.state.value === 'running' && mayRun()
  const answer = (text: string) =>
    void attempt('Answer', async () => {
      await sandbox.runs.answer(cell.run.runId, { seq: output.seq, text })
      setAnswered(output.isHidden ? '•••' : text)
    })
  return (
    <p class="input-line">
      <span>{output.prompt}</span>
      {isOpen ? (
        <input
          {...(output.isHidden ? { type: 'password' } : { type: 'text' })}
          aria-label={output.prompt === '' ? 'Input' : output.prompt}
          onKeyDown={(event) => event.key === 'Enter' && answer(event.currentTarget.value)}
        />
      ) : (
        <span>{answered}</span>
      )}
    </p>
  )
}
