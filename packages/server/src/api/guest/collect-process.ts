import { BoundedText, DormouseError, type ProcessEvent, RUN_OUTPUT_MAX_BYTES } from '@dormouse/contracts'
import type { ProcessInfo } from '@dormouse/engine'

export interface ProcessResult {
  processId: string
  pid: number
  stdout: string
  stderr: string
  exitCode: number
  durationMs: number
  timedOut?: boolean
  signal?: string
  outOfMemory?: string
  truncated?: { stdoutBytes: number; stderrBytes: number }
}

/** Collects the events of a whole process into one bounded answer. */
export async function collectProcess(
  { processId, pid }: Pick<ProcessInfo, 'processId' | 'pid'>,
  events: AsyncIterable<ProcessEvent>,
): Promise<ProcessResult> {
  const stdout = new BoundedText(RUN_OUTPUT_MAX_BYTES)
  const stderr = new BoundedText(RUN_OUTPUT_MAX_BYTES)
  for await (const event of events) {
    if (event.type === 'stdout') stdout.add(event.data)
    else if (event.type === 'stderr') stderr.add(event.data)
    else if (event.type === 'truncated') stdout.lose(event.bytes)
    else if (event.type === 'exit') {
      const { exitCode, durationMs, timedOut, signal, outOfMemory } = event
      const texts = { stdout: stdout.text(), stderr: stderr.text() }
      return {
        processId,
        pid,
        ...texts,
        exitCode,
        durationMs,
        ...(timedOut === undefined ? {} : { timedOut }),
        ...(signal === undefined ? {} : { signal }),
        ...(outOfMemory === undefined ? {} : { outOfMemory }),
        ...(stdout.lostBytes + stderr.lostBytes === 0
          ? {}
          : { truncated: { stdoutBytes: stdout.lostBytes, stderrBytes: stderr.lostBytes } }),
      }
    }
  }
  throw new DormouseError(
    'agent_unreachable',
    `The journal of process ${processId} ended before the process.`,
  )
}
