import { retryUntilDone } from '@dormouse/async'
import { type ClusterConnection, SharedRecords } from '@dormouse/cluster'
import type { KeyRecord } from '../access/key-rows.ts'
import type { StoredAccess } from '../access/stored-access.ts'
import type { Log } from '../log.ts'

type SharedKey = Omit<KeyRecord, 'digest'> & { readonly digest: string }

const RETRY_MS = 1_000

/** API keys are those of the cluster: every host has all of them, and hears of changes by the others. */
export async function shareKeys(
  { keys, key }: ClusterConnection,
  access: StoredAccess,
  log: Log,
): Promise<Disposable> {
  let isOver = false
  /** What was heard last of each key. */
  const newest = new Map<string, unknown>()
  const records = await SharedRecords.open<SharedKey>({
    ...{ bucket: keys, key, prefix: 'key.' },
    onRecord: (id, { digest, ...record }) => {
      newest.set(id, record)
      // A key that was revoked elsewhere must end here, too, also when the disk is full now.
      void retryUntilDone(
        async () => access.accept({ ...record, digest: Buffer.from(digest, 'hex') } as KeyRecord),
        {
          delayMs: RETRY_MS,
          isOver: () => isOver || newest.get(id) !== record,
          onFailure: (err) => log.error({ err }, 'a key of the cluster could not be recorded yet'),
        },
      )
    },
  })
  const share = (record: KeyRecord) =>
    void retryUntilDone(
      () => records.put(record.id, { ...record, digest: Buffer.from(record.digest).toString('hex') }),
      {
        delayMs: RETRY_MS,
        isOver: () => isOver,
        onFailure: (err) => log.warn({ err }, 'a key is not known to the other hosts yet'),
      },
    )
  for (const record of access.records()) if (!records.has(record.id)) share(record)
  const stop = access.onWrite(share)
  return {
    [Symbol.dispose]: () => {
      isOver = true
      stop()
      records[Symbol.dispose]()
    },
  }
}
