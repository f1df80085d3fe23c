import type { Volume } from 'dormouse'
import { formatBytes, formatDistance } from '../../format/amounts.ts'
import { formatFields, formatTable } from '../../format/table.ts'
import type { Call } from '../call.ts'
import { UsageError } from '../cli-error.ts'
import { parseMount } from '../create-flags.ts'
import { shortName } from './ls.ts'

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

export async function cloneVolume(
  call: Call,
  name: string,
  as: string,
  { readOnly, size }: { readOnly?: boolean; size?: number },
): Promise<void> {
  using _progress = call.progress(`Cloning ${name}`)
  const volume = await call.client.volumes.clone(
    name,
    { name: as, readOnly: readOnly === true, ...(size !== undefined && { sizeBytes: size }) },
    { signal: call.signal },
  )
  call.printResult(volume, `${volume.name}\n`)
  if (volume.oneMoment === false)
    call.note(`${name} changed while it was copied: ${as} has each file as it was when its turn came.`)
}

export async function shareVolume(
  call: Call,
  name: string,
  key: string,
  { write }: { write?: boolean },
): Promise<void> {
  const access = write === true ? 'write' : 'read'
  const volume = await call.client.volumes.share(name, key, access, { signal: call.signal })
  call.printResult(volume, `${volume.name}\n`)
  call.note(`Sandboxes of ${key} can mount it${access === 'write' ? '' : ' read-only'} as ${name}.`)
}

export async function unshareVolume(call: Call, name: string, key: string): Promise<void> {
  await call.client.volumes.unshare(name, key, { signal: call.signal })
  call.printResult({ volume: name, key }, `${name}\n`)
}

export async function attachVolume(call: Call, ref: string, text: string): Promise<void> {
  const mount = parseMount(text)
  const sandbox = await call.sandbox(ref)
  const others = sandbox.info.volumes.filter(({ path }) => path !== mount.path)
  const info = await sandbox.update({ volumes: [...others, mount], signal: call.signal })
  call.printResult(info, `${info.id}\n`)
  call.note(`${mount.volume} is at ${mount.path} in ${shortName(info)}.`)
}

export async function detachVolume(call: Call, ref: string, name: string): Promise<void> {
  const sandbox = await call.sandbox(ref)
  const volumes = sandbox.info.volumes.filter(({ volume }) => volume !== name)
  if (volumes.length === sandbox.info.volumes.length)
    throw new UsageError(`${shortName(sandbox.info)} does not mount a volume named "${name}"`)
  const info = await sandbox.update({ volumes, signal: call.signal })
  call.printResult(info, `${info.id}\n`)
}

export async function showVolume(call: Call, name: string): Promise<void> {
  const volume = await call.client.volumes.get(name, { signal: call.signal })
  const fields = formatFields([
    ['name', volume.name],
    ['used', sizeOf(volume)],
    ['files', volume.files === undefined ? undefined : String(volume.files)],
    ['size', `${formatBytes(volume.sizeBytes)} (${volume.sizeLimit} limit)`],
    ['created', volume.createdAt],
    ['mounted by', volume.usedBy.join(', ') || 'none'],
    ['clone of', volume.clonedFrom],
    ['writable', volume.readOnly ? 'no, it is a snapshot' : undefined],
    ['access', volume.access === 'own' ? undefined : `shared with this key: ${volume.access}`],
    [
      'shared with',
      volume.sharedWith.map(({ name, access }) => `${name} (${access})`).join(', ') || undefined,
    ],
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
