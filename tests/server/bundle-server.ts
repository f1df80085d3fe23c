import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const here = fileURLToPath(new URL('.', import.meta.url))
/** Below the packages that the bundles import. */
const bundles = fileURLToPath(new URL('../../node_modules/.cache/dormouse-tests/', import.meta.url))

/** Ours, and what shares schemas with us: a class or a registry that is there twice is not the same one. */
const BUNDLED = /^(?:[./#]|\/|dormouse$|@dormouse\/|zod|fastify-type-provider-zod|@modelcontextprotocol\/)/

/** A server of the tests as one file, which starts in half of the CPU time of the 700 that it is built in. */
export const serverBundle = (name: 'serve' | 'serve-faulty') => join(bundles, `${name}.mjs`)

/** Vitest calls this before the first test. */
export async function setup(): Promise<void> {
  mkdirSync(bundles, { recursive: true })
  try {
    await Promise.all([bundle('serve'), bundle('serve-faulty')])
  } catch (error) {
    // Only tests that start a server need it: they fail without it, the others run.
    rmSync(bundles, { recursive: true, force: true })
    console.error('The server of the tests cannot be bundled; `npx tsc -b` builds what it is made of.', error)
  }
}

async function bundle(name: 'serve' | 'serve-faulty'): Promise<void> {
  const made = await rolldown({
    input: join(here, `${name}.mjs`),
    platform: 'node',
    // Every statement stays, as in the build: the bundler drops calls that it takes to be pure, also those that throw.
    treeshake: false,
    external: (specifier) => !BUNDLED.test(specifier),
    plugins: [
      {
        name: 'keep-places',
        // Sources find their threads, programs and addons from where they were built.
        transform: (code, path) =>
          code.includes('import.meta.url')
            ? code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
            : null,
      },
    ],
  })
  // Another run of the tests may be starting this one.
  const file = `${serverBundle(name)}.${process.pid}`
  await made.write({ file, format: 'es', codeSplitting: false })
  await made.close()
  renameSync(file, serverBundle(name))
}
