import type { Tool } from '../tool.ts'
import { listFiles, readFile, writeFile } from './files.ts'
import { runPython, runShell } from './run.ts'
import { createSandbox, deleteSandbox, listSandboxes } from './sandboxes.ts'
import {
  forkSandbox,
  listSnapshots,
  resumeSandbox,
  rollbackSandbox,
  snapshotSandbox,
  standbySandbox,
} from './states.ts'

/** In the order in which a model sees them: most used first. */
export const TOOLS: readonly Tool[] = [
  runPython,
  runShell,
  readFile,
  writeFile,
  listFiles,
  forkSandbox,
  snapshotSandbox,
  rollbackSandbox,
  listSnapshots,
  createSandbox,
  listSandboxes,
  deleteSandbox,
  standbySandbox,
  resumeSandbox,
]
