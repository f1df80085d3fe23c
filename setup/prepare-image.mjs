// Makes what does not depend on the machine that Dormouse will run on: node setup/prepare-image.mjs
// For images: see deploy/Dockerfile. `./dormouse up` finds these steps done.
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runSteps } from './run-steps.mjs'
import { showFailure } from './show-failure.mjs'
import { TOOL_STEPS } from './steps/index.mjs'

const repoDir = dirname(dirname(fileURLToPath(import.meta.url)))
const { signal } = new AbortController()
try {
  // No step of these writes into the data directory.
  await runSteps(TOOL_STEPS, { repoDir, dataDir: repoDir, signal, output: process.stderr })
} catch (error) {
  process.exitCode = showFailure(error, process.stderr, { isJson: false })
}
