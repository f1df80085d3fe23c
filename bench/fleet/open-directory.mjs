// One host that starts: connects, reads the whole directory, and says what that took. A process of its own, so that
// nothing else is in its heap. Arguments: address of NATS, key of the cluster.

import { setTimeout as sleep } from 'node:timers/promises'
import { ClusterKey, connectCluster, Directory } from '@dormouse/cluster'

const [url = '', secret = ''] = process.argv.slice(2)
const key = new ClusterKey(Buffer.from(secret, 'base64'))

/** Twice, because the first collection lets go of buffers that the second one finds. */
async function used() {
  for (let round = 0; round < 2; round += 1) {
    globalThis.gc()
    await sleep(200)
  }
  const { heapUsed, external, rss } = process.memoryUsage()
  return { heapBytes: heapUsed + external, rssBytes: rss }
}

const connection = await connectCluster({ servers: [url], replicas: 1, key, hostId: 'reader' })
const before = await used()
const began = performance.now()
const directory = await Directory.open({ bucket: connection.directory, key })
const tookMs = performance.now() - began
const after = await used()
const entries = [...directory.all()].length
process.send?.({ entries, tookMs, before, after })
directory[Symbol.dispose]()
await connection[Symbol.asyncDispose]()
process.disconnect?.()
