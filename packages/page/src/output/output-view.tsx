import type { Sandbox } from 'dormouse'
import type { CellModel, Output } from '../notebook/cell-model.ts'
import { bytes } from '../words.ts'
import { AnsiText } from './ansi-text.tsx'
import { InputLine } from './input-line.tsx'
import { ResultView } from './result-view.tsx'

interface OutputProps {
  readonly output: Output
  readonly cell: CellModel
  readonly sandbox: Sandbox
}

export function OutputView({ output, cell, sandbox }: OutputProps) {
  if (output.kind === 'text') return <AnsiText text={output.text} class={output.stream} />
  if (output.kind === 'result') return <ResultView data={output.data} isMain={output.isMain} />
  if (output.kind === 'input') return <InputLine {...{ output, cell, sandbox }} />
  if (output.kind === 'truncated')
    return <p class="note">{bytes(output.bytes)} of output are not in the journal.</p>
  return <AnsiText text={output.traceback || `${output.name}: ${output.message}`} class="traceback" />
}
