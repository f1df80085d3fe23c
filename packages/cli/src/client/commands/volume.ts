import type { Volume } from 'dormouse'
import { formatBytes, formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageProblem } from '../problem.ts'

export async function listVolumes(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const volumes = await call.client.volumes.list({ signal: call.signal }).all()
  if (quiet === true) return call.answerNames(volumes)
  const now = Date.now()
  const rows = volumes.map((volume) => [
    volume.name,
    sizeOf(volume) ?? '-',
    formatBytes(volume.sizeBytes),
    String(volume.usedBy.length),
    `${formatDistance(Date.parse(volume.createdAt), now)} ago`,
  ])
  call.answer(
    { volumes },
    rows.length === 0 ? '' : formatTable([['NAME', 'HOLDS', 'SIZE', 'USED BY', 'CREATED'], ...rows]),
  )
  if (rows.length === 0) call.note('There are no volumes. `dormouse volume create NAME` makes one.')
}

export async function createVolume(call: Call, name: string, { size }: { size?: number }): Promise<void> {
  const volume = await call.client.volumes.create(
    { name, ...(size !== undefined && { sizeBytes: size }) },
    { signal: call.signal },
  )
  call.answer(volume, `${volume.name}\n`)
  call.note(`\`dormouse create -v ${name}:/data\` makes a sandbox that has it.`)
}

export async function updateVolume(call: Call, name: string, { size }: { size?: number }): Promise<void> {
  if (size === undefined)
    throw new UsageProblem('There is nothing to change.', 'Give what it may hold, such as --size 50GiB.')
  const volume = await call.client.volumes.update(name, { sizeBytes: size }, { signal: call.signal })
  call.answer(volume, `${volume.name} may hold ${formatBytes(volume.sizeBytes)}\n`)
}

export async function showVolume(call: Call, name: string): Promise<void> {
  const volume = await call.client.volumes.get(name, { signal: call.signal })
  const fields = formatFields([
    ['name', volume.name],
    ['holds', sizeOf(volume)],
    ['files', volume.files === undefined ? undefined : String(volume.files)],
    ['size', formatBytes(volume.sizeBytes)],
    ['created', volume.createdAt],
    ['used by', volume.usedBy.join(', ') || 'nobody'],
  ])
  call.answer(volume, fields)
}

export async function removeVolumes(call: Call, names: readonly string[]): Promise<void> {
  for (const name of names) await call.client.volumes.delete(name, { signal: call.signal })
  call.answer({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

function sizeOf({ bytes }: Volume): string | undefined {
  return bytes === undefined ? undefined : formatBytes(bytes)
}
