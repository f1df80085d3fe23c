import type { Routes } from '../route.ts'
import { contextRoutes } from './contexts.ts'
import { eventRoutes } from './events.ts'
import { fileRoutes } from './files.ts'
import { fileContentRoutes } from './files-content.ts'
import { hostRoutes } from './host.ts'
import { jobRoutes } from './jobs.ts'
import { keyRoutes } from './keys.ts'
import { lifecycleRoutes } from './lifecycle.ts'
import { networkRoutes } from './network.ts'
import { nodeRoutes } from './nodes.ts'
import { overviewRoutes } from './overview.ts'
import { portRoutes } from './ports.ts'
import { processRoutes } from './processes.ts'
import { processStdinRoutes } from './processes-stdin.ts'
import { ptyRoutes } from './pty.ts'
import { runOnceRoutes } from './run-once.ts'
import { runRoutes } from './runs.ts'
import { sandboxRoutes } from './sandboxes.ts'
import { scheduleRoutes } from './schedules.ts'
import { scrubRoutes } from './scrub.ts'
import { secretRoutes } from './secrets.ts'
import { serverRoutes } from './server.ts'
import { serviceLogRoutes } from './service-logs.ts'
import { serviceRoutes } from './services.ts'
import { sessionRoutes } from './sessions.ts'
import { snapshotRoutes } from './snapshots.ts'
import { sshKeyRoutes } from './ssh-keys.ts'
import { templateBuildRoutes } from './template-builds.ts'
import { templateRoutes } from './templates.ts'
import { uploadRoutes } from './uploads.ts'
import { usageRoutes } from './usage.ts'
import { variableRoutes } from './variables.ts'
import { volumeContentRoutes, volumeFileRoutes } from './volume-files.ts'
import { volumeRoutes } from './volumes.ts'
import { webhookRoutes } from './webhooks.ts'

/** Every route of the server. */
export const ROUTES: readonly Routes[] = [
  hostRoutes,
  serverRoutes,
  sessionRoutes,
  eventRoutes,
  overviewRoutes,
  scrubRoutes,
  sandboxRoutes,
  runRoutes,
  runOnceRoutes,
  jobRoutes,
  scheduleRoutes,
  webhookRoutes,
  contextRoutes,
  variableRoutes,
  fileRoutes,
  fileContentRoutes,
  processRoutes,
  processStdinRoutes,
  ptyRoutes,
  portRoutes,
  networkRoutes,
  lifecycleRoutes,
  snapshotRoutes,
  nodeRoutes,
  templateRoutes,
  templateBuildRoutes,
  uploadRoutes,
  volumeRoutes,
  volumeFileRoutes,
  volumeContentRoutes,
  serviceRoutes,
  serviceLogRoutes,
  secretRoutes,
  usageRoutes,
  keyRoutes,
  sshKeyRoutes,
]
