import { describeEngineContract } from '@dormouse/engine/contract'
import { afterAll } from 'vitest'
import { linuxFactory } from './linux-factory.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

describeEngineContract('linux', 'runs', factory)
