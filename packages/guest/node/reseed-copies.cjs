'use strict'
// Node programs of services load this before their own code. The agent sends SIGURG to the programs of a copied
// sandbox: without new seeds, all replicas of a version would make the same session ids, tokens and keys. An old Node
// must be able to parse this file.
// biome-ignore lint/style/useNodejsImportProtocol: an old Node does not know it.
const { isMainThread } = require('worker_threads')

if (isMainThread) {
  // Loaded ahead of need: the first request of a copy must find new seeds.
  const loaded = import('./reseed.mjs')
  loaded.catch(() => {})
  process.on('SIGURG', () => {
    loaded
      .then(({ reseedMathRandom, reseedOpenssl }) => {
        reseedMathRandom()
        if (!reseedOpenssl()) throw new Error('OpenSSL is out of reach')
      })
      .catch(() => {
        process.stderr.write(
          'dormouse: random generators were not reseeded, so replicas may agree on random bytes\n',
        )
      })
  })
}
