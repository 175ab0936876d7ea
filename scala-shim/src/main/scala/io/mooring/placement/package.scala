/** Container placement: the agent's plan, and how the tasks of a batch come to prefer the executors that it names. */
package io.mooring.placement
