import { Directory } from '@dormouse/cluster'
import { withNats } from './loopback-nats.mjs'

const SECONDS = 5
const WRITERS = 128
const ENTRY = {
  ...{ host: 'host-1', epoch: 1, generation: 0, owner: 'key-1', state: 'running', createdAt: 1 },
  row: { text: 'x'.repeat(600) },
}

/** Compare-and-set writes of directory entries that a real nats-server holds for one client, on this machine. */
export async function measureNats(key) {
  return await withNats(key, async ({ connection }) => {
    const entries = await Directory.open({ bucket: connection.directory, key })
    let writes = 0
    const endsAt = performance.now() + SECONDS * 1000
    const write = async (index) => {
      let located = await entries.add(`sb-${index}`, ENTRY)
      while (performance.now() < endsAt) {
        located = await entries.change(located, ENTRY)
        writes += 1
      }
    }
    await Promise.all(Array.from({ length: WRITERS }, (_, index) => write(index)))
    entries[Symbol.dispose]()
    return { perSecond: writes / SECONDS }
  })
}
