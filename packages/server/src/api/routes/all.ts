import type { Routes } from '../route.ts'
import { hostRoutes } from './host.ts'
import { sandboxRoutes } from './sandboxes.ts'

/** Every route of the server. */
export const ROUTES: readonly Routes[] = [hostRoutes, sandboxRoutes]
