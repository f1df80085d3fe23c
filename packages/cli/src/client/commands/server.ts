import { formatBytes } from '../../format/amounts.ts'
import { formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

interface ServerFlags {
  readonly log?: boolean
  readonly follow?: boolean
}

/** Shows how the server and its host are, or its log. */
export async function server(call: Call, { log, follow }: ServerFlags): Promise<void> {
  const { client, signal } = call
  if (log === true || follow === true) {
    for await (const line of client.server.log({ follow: follow === true, signal }))
      if (call.isJson) call.printJsonLine(line)
      else call.io.stdout.write(`${line.text}\n`)
    return
  }
  const report = await client.server.report({ signal })
  const { version, startedAt, checks, disk, memory, canRunSandboxes } = report
  const free = ({ freeBytes, totalBytes }: typeof disk) =>
    `${formatBytes(freeBytes)} of ${formatBytes(totalBytes)} free`
  const rows = [
    ['version', version],
    ['started', startedAt],
    ['disk', free(disk)],
    ['memory', free(memory)],
    ...checks.map(({ title, status, found }) => [title, status === 'ok' ? found : `${status}: ${found}`]),
  ]
  call.printResult(report, formatTable(rows))
  if (!canRunSandboxes) call.note('Sandboxes cannot run. `dormouse doctor` on the host says how to fix it.')
}
