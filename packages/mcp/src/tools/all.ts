import type { Tool } from '../tool.ts'
import { contexts } from './contexts.ts'
import { listFiles, readFile, writeFile } from './files.ts'
import { jobs } from './jobs.ts'
import { mapInputs } from './map.ts'
import { previewUrl } from './ports.ts'
import { runJavascript, runPython, runShell } from './run.ts'
import { cancelRun, getRun } from './runs.ts'
import { createSandbox, deleteSandbox, listSandboxes } from './sandboxes.ts'
import { deployService, services } from './services.ts'
import {
  checkpointSandbox,
  deleteSnapshot,
  forkSandbox,
  holdSandbox,
  listSnapshots,
  promoteSandbox,
  resumeSandbox,
  rollbackSandbox,
  snapshotSandbox,
  standbySandbox,
} from './states.ts'
import { createTemplate, deleteTemplate, listTemplates } from './templates.ts'
import { listVariables } from './variables.ts'
import { volumes } from './volumes.ts'

/** In the order in which a model sees them: most used first. */
export const TOOLS: readonly Tool[] = [
  runPython,
  runShell,
  runJavascript,
  getRun,
  cancelRun,
  readFile,
  writeFile,
  listFiles,
  forkSandbox,
  promoteSandbox,
  mapInputs,
  snapshotSandbox,
  rollbackSandbox,
  listSnapshots,
  deleteSnapshot,
  previewUrl,
  contexts,
  listVariables,
  createSandbox,
  listSandboxes,
  deleteSandbox,
  standbySandbox,
  resumeSandbox,
  holdSandbox,
  checkpointSandbox,
  volumes,
  deployService,
  services,
  jobs,
  listTemplates,
  createTemplate,
  deleteTemplate,
]
