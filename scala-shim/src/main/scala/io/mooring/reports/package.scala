/** Host affinity and hot standby: what an executor tells the driver. */
package io.mooring.reports
