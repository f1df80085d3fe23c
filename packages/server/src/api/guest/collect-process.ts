import { BoundedText, DormouseError, type ProcessEvent, RUN_OUTPUT_MAX_BYTES } from '@dormouse/contracts'

export interface ProcessResult {
  pid: number
  stdout: string
  stderr: string
  exitCode: number
  durationMs: number
  timedOut?: boolean
  signal?: string
  truncated?: { stdoutBytes: number; stderrBytes: number }
}

/** Collects the events of a whole process into one bounded answer. */
export async function collectProcess(
  pid: number,
  events: AsyncIterable<ProcessEvent>,
): Promise<ProcessResult> {
  const stdout = new BoundedText(RUN_OUTPUT_MAX_BYTES)
  const stderr = new BoundedText(RUN_OUTPUT_MAX_BYTES)
  for await (const event of events) {
    if (event.type === 'stdout') stdout.add(event.data)
    else if (event.type === 'stderr') stderr.add(event.data)
    else if (event.type === 'truncated') stdout.lose(event.bytes)
    else if (event.type === 'exit') {
      const { exitCode, durationMs, timedOut, signal } = event
      const texts = { stdout: stdout.text(), stderr: stderr.text() }
      return {
        pid,
        ...texts,
        exitCode,
        durationMs,
        ...(timedOut === undefined ? {} : { timedOut }),
        ...(signal === undefined ? {} : { signal }),
        ...(stdout.lostBytes + stderr.lostBytes === 0
          ? {}
          : { truncated: { stdoutBytes: stdout.lostBytes, stderrBytes: stderr.lostBytes } }),
      }
    }
  }
  throw new DormouseError('agent_unreachable', `The journal of process ${pid} ended before the process.`)
}
