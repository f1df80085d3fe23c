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
  const records = await SharedRecords.open<SharedKey>({
    ...{ bucket: keys, key, prefix: 'key.' },
    onRecord: (_id, { digest, ...record }) => {
      try {
        access.accept({ ...record, digest: Buffer.from(digest, 'hex') } as KeyRecord)
      } catch (err) {
        log.error({ err }, 'a key of the cluster could not be recorded')
      }
    },
  })
  let isOver = false
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
