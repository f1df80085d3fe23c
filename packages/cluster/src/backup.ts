import { once } from 'node:events'
import { createReadStream, createWriteStream, type WriteStream } from 'node:fs'
import { link, rm } from 'node:fs/promises'
import { finished } from 'node:stream/promises'
import { DormouseError } from '@dormouse/contracts'
import { DeliverPolicy, JetStreamApiError } from '@nats-io/jetstream'
import { headers as newHeaders } from '@nats-io/transport-node'
import type { ClusterKey } from './cluster-key.ts'
import type { ClusterConnection } from './connect-cluster.ts'
import { decodeHost, encodeHost } from './host-record.ts'
import { DEPOT_OBJECTS } from './jetstream-store.ts'

const BACKUP_FORMAT = 1
const HOSTS = 'KV_dormouse-hosts'
const DEPOT = 'dormouse-depot'
/** The depot comes last: it then has all that the directory refers to. */
const STREAMS = [
  HOSTS,
  'KV_dormouse-names',
  'KV_dormouse-keys',
  'KV_dormouse-state',
  'KV_dormouse-claims',
  'dormouse-jobs',
  'KV_dormouse-snapshots',
  'KV_dormouse-services',
  'KV_dormouse-directory',
  DEPOT,
]
const OPERATION = 'KV-Operation'
/** JetStream's code for "stream not found". */
const NO_STREAM = 10059
const IN_FLIGHT_MAX = 32
const HEAD_MAX_BYTES = 4096
const MESSAGE_MAX_BYTES = 64 * 1024 ** 2

interface FileHead {
  readonly format: number
  readonly stateFormat: number
  readonly proof: string
  readonly createdAt: string
}

interface OfThisHost {
  readonly proof: string
  readonly newestFormat: number
}

/** The last line: how many messages are before it. */
interface FileEnd {
  readonly end: number
}

export interface BackupTotal {
  readonly messages: number
  readonly bytes: number
  /** Whether it has a depot. A depot in S3 needs a backup of its own, taken afterwards. */
  readonly hasDepot: boolean
}

interface MessageHead {
  readonly subject: string
  readonly operation?: string
  readonly bytes: number
}

/**
 * Writes what the hosts keep in NATS to a file: directory, names, keys, shared state, jobs, services, kept snapshots and
 * the depot. It stays encrypted with the cluster key, which is not in the file. The hosts may continue meanwhile. The
 * file appears when it is whole and on disk. Throws `no_space`.
 */
export async function backUpCluster(connection: ClusterConnection, path: string): Promise<BackupTotal> {
  const draft = `${path}.new`
  await rm(draft, { force: true })
  const file = createWriteStream(draft, { flags: 'wx', mode: 0o600, flush: true })
  try {
    await once(file, 'open')
    const total = await writeBackup(connection, file)
    file.end()
    await finished(file)
    // Unlike a rename, this replaces no file.
    await link(draft, path)
    return total
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    throw new DormouseError('no_space', 'There is no space for the backup.', {
      hint: 'Choose a directory with more space. Nothing was written.',
      cause: error,
    })
  } finally {
    file.destroy()
    await rm(draft, { force: true })
  }
}

async function writeBackup(
  { jetstream, manager, key, format }: ClusterConnection,
  file: WriteStream,
): Promise<BackupTotal> {
  const total = { messages: 0, bytes: 0, hasDepot: false }
  const write = async (head: object, body?: Uint8Array) => {
    const line = Buffer.from(`${JSON.stringify(head)}\n`)
    const isFull = !file.write(body === undefined ? line : Buffer.concat([line, body]))
    if (file.errored !== null) throw file.errored
    if (isFull) await once(file, 'drain')
  }
  const createdAt = new Date().toISOString()
  const stateFormat = await format.require()
  await write({ format: BACKUP_FORMAT, stateFormat, proof: key.proof, createdAt })
  for (const stream of STREAMS) {
    const { state } = await manager.streams.info(stream).catch(noStream)
    if (state.messages === 0) continue
    if (stream === DEPOT) total.hasDepot = true
    const consumer = await jetstream.consumers.get(stream, { deliver_policy: DeliverPolicy.All })
    const messages = await consumer.consume()
    try {
      for await (const { subject, headers, data, seq, info } of messages) {
        const operation = headers?.get(OPERATION)
        const head: MessageHead = { subject, bytes: data.length, ...(operation && { operation }) }
        await write(head, data)
        total.messages += 1
        total.bytes += data.length
        if (seq >= state.last_seq || info.pending === 0) break
      }
    } finally {
      await messages.close()
    }
  }
  if ((await format.require()) !== stateFormat)
    throw new DormouseError('conflict', 'The hosts write a newer format since this backup began.', {
      hint: 'Make the backup again.',
    })
  await write({ end: total.messages } satisfies FileEnd)
  return total
}

/** Brings the state of a whole backup into NATS servers that have none. Pre: no host is running. */
export async function restoreCluster(
  { jetstream, manager, key, format }: ClusterConnection,
  path: string,
): Promise<BackupTotal> {
  const own = { proof: key.proof, newestFormat: format.newest }
  const { state } = await manager.streams.info('KV_dormouse-directory')
  if (state.messages > 0)
    throw new DormouseError(
      'conflict',
      'This cluster has sandboxes. A backup is restored into an empty one.',
      {
        hint: 'Stop all hosts and start the NATS servers with empty directories.',
      },
    )
  // A file that ends too early must change nothing.
  for await (const _ of readMessages(path, own));
  const total = { messages: 0, bytes: 0, hasDepot: false }
  const sending = new Set<Promise<unknown>>()
  let failure: unknown
  for await (const { head, body } of readMessages(path, own)) {
    if (failure !== undefined) break
    const options = newHeaders()
    if (head.operation !== undefined) options.set(OPERATION, head.operation)
    const value = head.subject.startsWith('$KV.dormouse-hosts.') ? endLease(body, key) : body
    const sent: Promise<unknown> = jetstream
      .publish(head.subject, value, { headers: options })
      .catch((error: unknown) => {
        failure ??= error
      })
      .finally(() => sending.delete(sent))
    sending.add(sent)
    total.messages += 1
    total.bytes += body.length
    if (head.subject.startsWith(`${DEPOT_OBJECTS}.`)) total.hasDepot = true
    if (sending.size >= IN_FLIGHT_MAX) await Promise.race(sending)
  }
  await Promise.all(sending)
  if (failure !== undefined)
    throw new DormouseError('cluster_unavailable', 'NATS did not take the whole backup.', {
      hint: 'Start the NATS servers with empty directories and enough space, and restore it again.',
      cause: failure,
    })
  return total
}

/** A lease from before the backup must not count. The host takes the next one when it starts. */
function endLease(value: Uint8Array, key: ClusterKey): Uint8Array {
  const decoded = decodeHost(value, key)
  return decoded === undefined
    ? value
    : Buffer.from(encodeHost({ ...decoded.record, fencedBy: 'restore' }, key))
}

async function* readMessages(
  path: string,
  own: OfThisHost,
): AsyncGenerator<{ head: MessageHead; body: Buffer }> {
  let held: Buffer = Buffer.alloc(0)
  let head: MessageHead | undefined
  let isChecked = false
  let isWhole = false
  let count = 0
  for await (const piece of createReadStream(path) as AsyncIterable<Buffer>) {
    held = held.length === 0 ? piece : Buffer.concat([held, piece])
    for (;;) {
      if (head === undefined) {
        const end = held.indexOf(10)
        if (end === -1 && held.length > HEAD_MAX_BYTES) throw notABackup()
        if (end === -1) break
        const line = parseLine(held.subarray(0, end))
        held = held.subarray(end + 1)
        if (!isChecked) checkHead(line as FileHead, own)
        else if ((line as FileEnd).end === count) isWhole = true
        else head = line as MessageHead
        isChecked = true
        continue
      }
      if (!(head.bytes >= 0 && head.bytes <= MESSAGE_MAX_BYTES)) throw notABackup()
      if (held.length < head.bytes) break
      yield { head, body: held.subarray(0, head.bytes) }
      count += 1
      held = held.subarray(head.bytes)
      head = undefined
    }
  }
  if (!isWhole || head !== undefined || held.length > 0) throw notABackup()
}

function checkHead({ format, stateFormat, proof }: FileHead, own: OfThisHost): void {
  if (typeof format !== 'number') throw notABackup()
  if (format > BACKUP_FORMAT || stateFormat > own.newestFormat)
    throw new DormouseError(
      'setup_failed',
      `The backup has format ${format}, and its state format ${stateFormat}; this version knows formats up to ${BACKUP_FORMAT} and ${own.newestFormat}.`,
      { hint: 'Restore it with the version that wrote it.' },
    )
  if (proof !== own.proof)
    throw new DormouseError('setup_failed', 'The backup is of a cluster with another key.', {
      hint: 'Use the `cluster.key` of the hosts that the backup was made of.',
    })
}

function parseLine(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString())
  } catch {
    throw notABackup()
  }
}

function notABackup(): DormouseError {
  return new DormouseError('invalid_argument', 'The file is not a whole backup of a cluster.')
}

/** A cluster that has had no host yet lacks some of them. */
function noStream(error: unknown): { state: { messages: number; last_seq: number } } {
  if (error instanceof JetStreamApiError && error.code === NO_STREAM)
    return { state: { messages: 0, last_seq: 0 } }
  throw error
}
