import type { ResultData, RunEvent } from 'dormouse'
import { formatBytes } from '../format/amounts.ts'
import type { CommandIo } from './command-io.ts'

/** What a run says, as a terminal shows it: output as it is, results as text. */
export function showEvent(
  event: RunEvent,
  { stdout, stderr, signal }: Pick<CommandIo, 'stdout' | 'stderr' | 'signal'>,
): void {
  // Nobody reads any more, and how a run is ended for that is nobody's business.
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
      stdout.write(`${resultText(event.data)}\n`)
      break
    case 'truncated':
      stderr.write(`dormouse: ${formatBytes(event.bytes)} of output are not kept any more\n`)
      break
    case 'exit':
      if (event.timedOut === true) stderr.write('dormouse: interrupted, its time was over\n')
      break
    // The traceback was on stderr already.
    case 'error':
      break
  }
}

/** Its text; without one, what it is: `[image/png, 12 kB]`. */
export function resultText(data: ResultData): string {
  const text = data['text/plain']
  const others = Object.entries(data).filter(([type]) => type.startsWith('image/'))
  const shown = others.map(([type, value]) => `[${type}, ${formatBytes(String(value).length * 0.75)}]`)
  return (
    [...(typeof text === 'string' ? [text] : []), ...shown].join(' ') || `[${Object.keys(data).join(', ')}]`
  )
}
