import type { ResultData, RunEvent } from 'dormouse'
import { formatBytes } from '../format/amounts.ts'
import type { CommandIo } from './command-io.ts'
import { terminalImage } from './terminal-image.ts'

/** Prints an event of a run: output unchanged, results as text. */
export function showEvent(
  event: RunEvent,
  { stdout, stderr, signal, env }: Pick<CommandIo, 'stdout' | 'stderr' | 'signal' | 'env'>,
): void {
  // The reader of the output is gone.
  if (signal.reason === 'SIGPIPE') return
  switch (event.type) {
    case 'start':
      if (event.contextRestarted !== undefined) stderr.write(`dormouse: ${event.contextRestarted}\n`)
      break
    case 'stdout':
      stdout.write(event.data)
      break
    case 'stderr':
      stderr.write(event.data)
      break
    case 'result':
      stdout.write(`${(stdout.isTTY ? plotOf(event.data, env) : undefined) ?? resultText(event.data)}\n`)
      break
    case 'input':
      stdout.write(`${event.prompt}\n`)
      break
    case 'truncated':
      stderr.write(`dormouse: ${formatBytes(event.bytes)} of output were dropped from the journal\n`)
      break
    case 'exit':
      // The agent writes time-outs and the end of a kernel to stderr itself.
      if (event.outOfMemory !== undefined && event.contextRestarted !== true)
        stderr.write(`dormouse: ${event.outOfMemory}\n`)
      break
    // stderr already has the traceback.
    case 'error':
      break
  }
}

/** Whether the result has a plot that this terminal cannot show. */
export function isPlotHidden(event: RunEvent, { stdout, env }: Pick<CommandIo, 'stdout' | 'env'>): boolean {
  if (event.type !== 'result' || !stdout.isTTY) return false
  return event.data['image/png'] !== undefined && plotOf(event.data, env) === undefined
}

function plotOf(data: ResultData, env: CommandIo['env']): string | undefined {
  const png = data['image/png']
  return typeof png === 'string' ? terminalImage(png, env) : undefined
}

/** The text of a result; without text, its types: `[image/png, 12 kB]`. */
function resultText(data: ResultData): string {
  const text = data['text/plain']
  const others = Object.entries(data).filter(([type]) => type.startsWith('image/'))
  const shown = others.map(([type, value]) => `[${type}, ${formatBytes(String(value).length * 0.75)}]`)
  return (
    [...(typeof text === 'string' ? [text] : []), ...shown].join(' ') || `[${Object.keys(data).join(', ')}]`
  )
}
