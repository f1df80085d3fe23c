import type { ScrubStatus } from 'dormouse'
import { formatBytes, formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'

export async function showScrub(call: Call): Promise<number> {
  const status = await call.client.scrub.status({ signal: call.signal })
  call.printResult(status, formatStatus(status))
  return isDamaged(status) ? 1 : 0
}

export async function startScrub(call: Call): Promise<void> {
  const status = await call.client.scrub.start({ signal: call.signal })
  call.printResult(status, formatStatus(status))
  call.note('The scrub runs in the background. Follow it with `dormouse scrub show`.')
}

function isDamaged({ damagedSnapshots, damagedTemplates }: ScrubStatus): boolean {
  return damagedSnapshots.length + damagedTemplates.length > 0
}

function formatStatus(status: ScrubStatus, now = Date.now()): string {
  const ago = (time: string | undefined) =>
    time === undefined ? 'never' : `${formatDistance(Date.parse(time), now)} ago`
  const { progress } = status
  const fields = formatFields([
    ['state', status.state],
    ['checked', progress && `${progress.checkedParts} of ${progress.parts} parts`],
    ['started', ago(status.beganAt)],
    ['last finished', ago(status.finishedAt)],
    ['bytes read', formatBytes(status.readBytes)],
    ['damaged', isDamaged(status) ? undefined : 'nothing'],
  ])
  const rows = [
    ...status.damagedSnapshots.map((one) => [one.snapshotId, one.sandboxId, ago(one.foundAt), one.reason]),
    ...status.damagedTemplates.map((one) => [`template ${one.template}`, '-', ago(one.foundAt), one.reason]),
  ]
  return rows.length === 0
    ? fields
    : `${fields}\n${formatTable([['DAMAGED', 'SANDBOX', 'FOUND', 'WHAT'], ...rows])}`
}
