/** Host affinity and hot standby: the reports of an executor to the driver. */
package io.mooring.reports
