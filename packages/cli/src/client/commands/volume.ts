import type { Volume } from 'dormouse'
import { formatBytes, formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'

export async function listVolumes(call: Call, { quiet }: { quiet?: boolean }): Promise<void> {
  const volumes = await call.client.volumes.list({ signal: call.signal }).all()
  if (quiet === true) return call.printNames(volumes)
  const now = Date.now()
  const rows = volumes.map((volume) => [
    volume.name,
    sizeOf(volume) ?? '-',
    formatBytes(volume.sizeBytes),
    String(volume.usedBy.length),
    `${formatDistance(Date.parse(volume.createdAt), now)} ago`,
  ])
  call.printResult(
    { volumes },
    rows.length === 0 ? '' : formatTable([['NAME', 'USED', 'SIZE', 'MOUNTED BY', 'CREATED'], ...rows]),
  )
  if (rows.length === 0) call.note('There are no volumes. Create one with `dormouse volume create NAME`.')
}

export async function createVolume(call: Call, name: string, { size }: { size?: number }): Promise<void> {
  const volume = await call.client.volumes.create(
    { name, ...(size !== undefined && { sizeBytes: size }) },
    { signal: call.signal },
  )
  call.printResult(volume, `${volume.name}\n`)
  call.note(`Create a sandbox that mounts it with \`dormouse create -v ${name}:/data\`.`)
}

export async function updateVolume(call: Call, name: string, { size }: { size?: number }): Promise<void> {
  if (size === undefined)
    throw new UsageError('there is nothing to change', 'Set the size, such as --size 50GiB.')
  const volume = await call.client.volumes.update(name, { sizeBytes: size }, { signal: call.signal })
  call.printResult(volume, `${volume.name} can hold ${formatBytes(volume.sizeBytes)}\n`)
}

export async function showVolume(call: Call, name: string): Promise<void> {
  const volume = await call.client.volumes.get(name, { signal: call.signal })
  const fields = formatFields([
    ['name', volume.name],
    ['used', sizeOf(volume)],
    ['files', volume.files === undefined ? undefined : String(volume.files)],
    ['size', formatBytes(volume.sizeBytes)],
    ['created', volume.createdAt],
    ['mounted by', volume.usedBy.join(', ') || 'none'],
  ])
  call.printResult(volume, fields)
}

export async function removeVolumes(call: Call, names: readonly string[]): Promise<void> {
  for (const name of names) await call.client.volumes.delete(name, { signal: call.signal })
  call.printResult({ deleted: names }, names.map((name) => `${name}\n`).join(''))
}

function sizeOf({ bytes }: Volume): string | undefined {
  return bytes === undefined ? undefined : formatBytes(bytes)
}
