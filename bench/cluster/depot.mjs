import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import { connectCluster, Depot, JetStreamStore } from '@dormouse/cluster'

const BYTES = 256 * 1024 ** 2
const CHUNK_BYTES = 960 * 1024
const AT_ONCE = 8
const TURNS = 3

/** Bytes that cannot be compressed, to the object store alone and through the depot, in turns. MB/s. */
export async function measureDepot({ servers, key }) {
  const connection = await connectCluster({ servers, replicas: 1, key, hostId: 'bench' })
  const store = await JetStreamStore.open({ ...connection, replicas: 1 })
  const depot = new Depot({ store, key })
  depot.prepare()
  const all = { bare: [], upload: [], download: [] }
  for (let turn = 0; turn < TURNS; turn += 1) {
    const pieces = Array.from({ length: Math.floor(BYTES / CHUNK_BYTES) }, () => randomBytes(CHUNK_BYTES))
    const perSecond = async (work) => {
      const began = performance.now()
      await work()
      return (pieces.length * CHUNK_BYTES) / (performance.now() - began) / 1000
    }
    all.bare.push(await perSecond(() => sendBare(store, pieces, turn)))
    let chunks = []
    all.upload.push(
      await perSecond(async () => {
        ;({ chunks } = await depot.storeStream(Readable.from(pieces)))
      }),
    )
    all.download.push(
      await perSecond(async () => {
        for await (const _ of depot.load(chunks));
      }),
    )
    for (const chunk of chunks) await store.remove(`chunk-${chunk}`)
    for (const index of pieces.keys()) await store.remove(`bare-${turn}-${index}-0`)
  }
  await depot[Symbol.asyncDispose]()
  await connection[Symbol.asyncDispose]()
  const [bare, upload, download] = Object.values(all).map(median)
  return { bare, upload, download, part: upload / bare }
}

async function sendBare(store, pieces, turn) {
  const next = pieces.entries()
  const send = async () => {
    for (const [index, piece] of next) await store.put(`bare-${turn}-${index}-0`, piece, { keepsFirst: true })
  }
  await Promise.all(Array.from({ length: AT_ONCE }, send))
}

function median(all) {
  return all.sort((one, other) => one - other)[Math.floor(all.length / 2)]
}
