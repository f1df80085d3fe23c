import type { KV } from '@nats-io/kv'
import type { ClusterKey } from './cluster-key.ts'
import { compareAndSet, read, untilWritten } from './compare-and-set.ts'

/**
 * A text that all hosts of the cluster have: the first one that a host proposes. A host that finds one that is not good
 * any more replaces it with its own.
 */
export async function agreeOn(
  { bucket, key }: { bucket: KV; key: ClusterKey },
  name: string,
  { mine, isGood }: { mine: string; isGood: (text: string) => boolean },
): Promise<string> {
  return await untilWritten(async () => {
    const found = await read(bucket, name)
    const text = found && key.open(found.value, name).toString()
    if (text !== undefined && isGood(text)) return text
    const value = key.seal(mine, name)
    const revision = await compareAndSet(bucket, name, { value, expected: found?.revision ?? 0 })
    return revision === undefined ? undefined : mine
  })
}
